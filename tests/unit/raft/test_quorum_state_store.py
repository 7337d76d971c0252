"""quorum-state, as Apache Kafka writes it and as we do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraft.common.errors import CorruptData
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.voter_set import ReplicaKey
from kraft.raft.quorum_state_store import QuorumStateStore
from kraft.world.real.files import RealFileSystem
from tests.unit.raft.builders import key_of, voters_of

KAFKA_V0 = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)
KAFKA_V1 = '{"leaderId":-1,"leaderEpoch":4,"votedId":2,"votedDirectoryId":"5wQlcOYmSMCfBsqijurtrw","data_version":1}'


def store(directory: Path) -> QuorumStateStore:
    return QuorumStateStore(RealFileSystem(), str(directory))


def test_without_a_quorum_state_file_the_election_state_is_initial(tmp_path: Path) -> None:
    assert store(tmp_path).load() == ElectionState()


def test_quorum_state_files_of_apache_kafka_are_read(tmp_path: Path) -> None:
    (tmp_path / "quorum-state").write_text(KAFKA_V0)
    assert store(tmp_path).load() == ElectionState(3, 1, None)
    (tmp_path / "quorum-state").write_text(KAFKA_V1 + "\nanything behind the first line is ignored")
    loaded = store(tmp_path).load()
    assert (loaded.epoch, loaded.leader_id) == (4, -1)
    assert loaded.voted is not None
    assert loaded.voted.id == 2


@pytest.mark.parametrize("kraft_version", [0, 1])
@pytest.mark.parametrize(
    "election", [ElectionState(7), ElectionState(7, 2), ElectionState(7, -1, key_of(3)), ElectionState(7, 3, key_of(3))]
)
def test_a_saved_quorum_state_is_loaded_equal(tmp_path: Path, election: ElectionState, kraft_version: int) -> None:
    store(tmp_path).save(election, voters_of(1, 2, 3), kraft_version)
    expected = (
        election if kraft_version or election.voted is None else election._replace(voted=ReplicaKey(election.voted.id))
    )
    assert store(tmp_path).load() == expected
    assert json.loads((tmp_path / "quorum-state").read_text())["data_version"] == kraft_version
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quorum-state"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "not json",
        '{"leaderId":1,"leaderEpoch":"x","votedId":-1,"data_version":0}',
        KAFKA_V0.replace(":0}", ":9}"),
        KAFKA_V0.replace('"leaderId":1', '"leaderId":-2'),
        KAFKA_V0.replace('"leaderId":1', '"leaderId":2147483648'),
        KAFKA_V1.replace('"votedId":2', '"votedId":2147483648'),
        KAFKA_V1.replace('"leaderEpoch":4', '"leaderEpoch":true'),
    ],
)
def test_a_damaged_quorum_state_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "quorum-state").write_text(content)
    with pytest.raises(CorruptData, match="quorum-state"):
        store(tmp_path).load()


@pytest.mark.parametrize("epoch", [-1, 2**31 - 1, 2**31])
def test_an_epoch_without_a_possible_successor_is_refused_with_the_remedy(tmp_path: Path, epoch: int) -> None:
    (tmp_path / "quorum-state").write_text(KAFKA_V1.replace('"leaderEpoch":4', f'"leaderEpoch":{epoch}'))
    with pytest.raises(CorruptData, match=rf"follow epoch {epoch}, .* ends in epoch 7\. .*lost-quorum"):
        store(tmp_path).load(log_epoch=7)


@pytest.mark.parametrize(
    "election",
    [
        ElectionState(-1),
        ElectionState(2**31),
        ElectionState(1, -2),
        ElectionState(1, 2**31),
        ElectionState(1, -1, ReplicaKey(-1)),
        ElectionState(1, -1, ReplicaKey(2**31)),
    ],
)
def test_an_election_state_that_no_message_can_carry_is_not_stored(tmp_path: Path, election: ElectionState) -> None:
    store(tmp_path).save(ElectionState(4), voters_of(1, 2, 3), 1)
    with pytest.raises(AssertionError, match="cannot be stored"):
        store(tmp_path).save(election, voters_of(1, 2, 3), 1)
    assert store(tmp_path).load() == ElectionState(4)
