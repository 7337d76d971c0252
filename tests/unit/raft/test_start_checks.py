"""Starts that can never lead to a leader."""

from __future__ import annotations

import pytest

from kraft.common.errors import ConfigurationError
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.voter_set import ReplicaKey, VoterSet
from kraft.raft.start_checks import refuse_impossible_election, replaced_voter
from tests.unit.raft.builders import key_of, voter_of, voters_of

DIRECTORY = "/data/__cluster_metadata-0"


def config(local: ReplicaKey, *, can_be_voter: bool = True, bootstrap: tuple[int, ...] = ()) -> QuorumConfig:
    servers = tuple(voter_of(node_id).endpoints for node_id in bootstrap)
    return QuorumConfig(
        local=local, endpoints=voter_of(local.id).endpoints, can_be_voter=can_be_voter, bootstrap=servers
    )


def test_a_sole_voter_on_another_disk_is_refused_with_the_directory_id_to_restore() -> None:
    other = ReplicaKey(1, b"another director")
    with pytest.raises(ConfigurationError, match=r"^/data/meta\.properties.*directory\.id=AAAAAAAAAAAAAAAAAAAAAQ"):
        refuse_impossible_election(config(other), voters_of(1), DIRECTORY)


@pytest.mark.parametrize("bootstrap", [(), (1,)])
def test_a_controller_without_voters_and_without_bootstrap_servers_is_refused(bootstrap: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError, match=r"no voter is known.*--voters"):
        refuse_impossible_election(config(key_of(1), bootstrap=bootstrap), VoterSet(), DIRECTORY)


def test_a_node_that_can_learn_the_quorum_from_others_starts() -> None:
    refuse_impossible_election(config(key_of(1), bootstrap=(1, 2)), VoterSet(), DIRECTORY)
    refuse_impossible_election(config(key_of(1), can_be_voter=False), VoterSet(), DIRECTORY)
    refuse_impossible_election(config(key_of(1)), voters_of(1), DIRECTORY)
    refuse_impossible_election(config(key_of(2)), voters_of(1), DIRECTORY)
    replaced = config(ReplicaKey(1, b"another director"))
    refuse_impossible_election(replaced, voters_of(1, 2, 3), DIRECTORY)
    assert replaced_voter(replaced, voters_of(1, 2, 3)) == key_of(1)
    assert replaced_voter(config(key_of(1)), voters_of(1, 2, 3)) is None
    assert replaced_voter(config(key_of(4)), voters_of(1, 2, 3)) is None
