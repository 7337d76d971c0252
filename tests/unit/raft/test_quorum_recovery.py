"""A quorum of one out of a survivor: what is refused, what is decided, what is on disk after a crash at any step."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kraft.common.errors import ConfigurationError, CorruptData
from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.epoch_allowance import ANSWERED_EPOCH_MAX
from kraft.raft.core.voter_set import Endpoint, ReplicaKey, VoterSet
from kraft.raft.formatter import write_checkpoint
from kraft.raft.metadata_log import MetadataLog
from kraft.raft.quorum_recovery import (
    EPOCH_RISE_MIN,
    KNOWN_EPOCH_MAX,
    Survivor,
    VoterAddress,
    addresses_to_ask,
    carry_out,
    opened_survivor,
    plan_recovery,
    who_answers,
)
from kraft.raft.quorum_state_store import QuorumStateStore
from kraft.raft.raft_config import RaftConfig, static_voter
from kraft.raft.snapshot.snapshot_path import BOOTSTRAP_ID, snapshot_name
from kraft.world.ports import FileSystem
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.raft.builders import TextSerde, data_batch, key_of, voter_of, voters_of
from tests.unit.world.simulated_pair import simulate

HOME = "/data"
METADATA = f"{HOME}/__cluster_metadata-0"
OLD_EPOCH = 5
STATIC = VoterSet(static_voter(node_id, f"node-{node_id}", 9000 + node_id) for node_id in (1, 2, 3))


def survivor(**changes: object) -> Survivor:
    found = Survivor(
        directory=METADATA,
        key=key_of(1),
        is_controller=True,
        end_offset=40,
        last_epoch=4,
        election_epoch=OLD_EPOCH,
        committed_end=30,
        newest_snapshot=OffsetAndEpoch(20, 3),
        voters=voters_of(1, 2, 3),
        previous_voters=voters_of(1, 2, 3),
        kraft_version=1,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def config(static: VoterSet | None = None, node_id: int = 1, **quorum: object) -> RaftConfig:
    return RaftConfig(
        quorum=QuorumConfig(local=key_of(node_id), endpoints=voter_of(node_id).endpoints, **quorum),  # type: ignore[arg-type]
        metadata_log_directory=HOME,
        static_voters=static or VoterSet(),
    )


# What is decided


def test_recovery_makes_this_node_the_only_voter_in_an_epoch_far_above_the_known_one() -> None:
    recovery = plan_recovery(survivor(), random.Random(1))
    assert recovery.epoch >= OLD_EPOCH + EPOCH_RISE_MIN
    assert recovery.payload.voters.voters == (voter_of(1),)
    assert (recovery.base_offset, recovery.end_offset, recovery.payload.kraft_version) == (40, 41, None)


def test_the_recovery_epoch_is_above_the_logs_epoch_when_quorum_state_is_behind() -> None:
    assert plan_recovery(survivor(last_epoch=900, election_epoch=7), random.Random(1)).epoch >= 900 + EPOCH_RISE_MIN


def test_two_recovered_survivors_do_not_share_an_epoch() -> None:
    assert len({plan_recovery(survivor(), random.Random(seed)).epoch for seed in range(10)}) == 10


def test_recovery_turns_static_voters_into_a_voter_set_in_the_log() -> None:
    recovery = plan_recovery(survivor(voters=STATIC, previous_voters=STATIC, kraft_version=0), random.Random(1))
    assert (recovery.payload.kraft_version, recovery.end_offset) == (1, 42)
    (voter,) = recovery.payload.voters.voters
    assert (voter.key, voter.endpoints, voter.max_version) == (key_of(1), (Endpoint("CONTROLLER", "node-1", 9001),), 1)


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_recovery_epoch_is_accepted_by_joining_nodes(seed: int) -> None:
    recovery = plan_recovery(survivor(election_epoch=KNOWN_EPOCH_MAX), random.Random(seed))
    assert recovery.epoch + 1_000_000 < ANSWERED_EPOCH_MAX


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"is_controller": False}, "node 1 is no controller"),
        ({"key": ReplicaKey(1, bytes(16)), "voters": STATIC}, "has no directory.id"),
        ({"voters": voters_of(2, 3)}, r"node 1 is not a voter \(voters: 2, 3\)"),
        ({"voters": VoterSet(), "kraft_version": 0}, r"not a voter \(voters: unknown\).*--voters"),
        ({"key": ReplicaKey(1, b"another disk 123")}, "formatted after the voter's disk was lost"),
        ({"end_offset": 0, "last_epoch": 0, "committed_end": 0}, "the metadata log is empty"),
        ({"election_epoch": KNOWN_EPOCH_MAX + 1}, "too great to be raised"),
    ],
)
def test_a_node_that_cannot_become_the_quorum_is_refused_with_the_reason(
    changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        plan_recovery(survivor(**changes), random.Random(1))


def test_every_address_of_another_controller_is_probed_once() -> None:
    bootstrap = tuple(
        (Endpoint("", host, port),) for host, port in (("127.0.0.1", 9001), ("127.0.0.1", 9002), ("c", 1))
    )
    found = addresses_to_ask(
        survivor(voters=voters_of(1, 2), previous_voters=voters_of(1, 2, 3)), config(STATIC, bootstrap=bootstrap)
    )
    assert found == [
        VoterAddress(2, "127.0.0.1", 9002),
        VoterAddress(3, "127.0.0.1", 9003),
        VoterAddress(2, "node-2", 9002),
        VoterAddress(3, "node-3", 9003),
        VoterAddress(None, "c", 1),
    ]


def test_a_controller_that_accepts_a_connection_is_alive_and_a_silent_one_is_not() -> None:
    async def fate(universe: Universe) -> None:
        listener = await universe.world_for(2).network.listen("node-2", 9002)
        universe.world_for(3)
        universe.isolate(3)
        places = [VoterAddress(2, "node-2", 9002), VoterAddress(3, "node-3", 9003), VoterAddress(None, "nowhere", 1)]
        assert await who_answers(universe.world_for(1), places, 5.0) == places[:1]
        listener.close()

    simulate(fate)


# What is on disk


def lay_out(files: FileSystem, static: bool = False) -> None:
    """The disk of voter 1 after a life in a quorum of three: ten batches, all synced."""
    files.make_directories(METADATA)
    files.sync_directory("/")
    files.sync_directory(HOME)
    if not static:
        write_checkpoint(files, METADATA, snapshot_name(BOOTSTRAP_ID), TextSerde(), (), voters_of(1, 2, 3), 1, 0, 0)
    log = MetadataLog.open(files, METADATA, segment_bytes=400)
    list(log.recover())
    for offset in range(10):
        log.append([data_batch(offset, f"record {offset}", epoch=1 + offset // 3)], offset + 1)
    log.sync()
    log.close()
    voters = STATIC if static else voters_of(1, 2, 3)
    QuorumStateStore(files, METADATA).save(ElectionState(OLD_EPOCH, 2, key_of(2)), voters, 0 if static else 1)
    files.sync_directory(HOME)


def recover_here(world: SimulatedWorld, told: RaftConfig) -> None:
    with opened_survivor(world.files, told, TextSerde()) as (storage, found):
        if not found.is_only_voter:
            carry_out(storage, found, plan_recovery(found, world.random.stream("recover")), 1_000)


def read_back(files: FileSystem, told: RaftConfig) -> tuple[Survivor, list[str]]:
    """The state, and the records in the log."""
    with opened_survivor(files, told, TextSerde()) as (storage, found):
        log = MetadataLog.open(files, METADATA, segment_bytes=400)
        records = [
            bytes(record.value or b"").decode()
            for batch in log.recover()
            if not batch.is_control
            for record in batch.records()
        ]
        log.close()
        assert storage.log.end_offset == found.end_offset
    return found, records


ALL = [f"record {offset}" for offset in range(10)]


@pytest.mark.parametrize("static", [False, True])
def test_recovery_makes_this_node_the_only_voter_and_keeps_every_record(static: bool) -> None:
    async def fate(universe: Universe) -> None:
        world, told = universe.world_for(1), config(STATIC if static else None)
        lay_out(world.files, static)
        recover_here(world, told)
        found, records = read_back(world.files, told)
        assert found.is_only_voter
        assert (found.kraft_version, found.voters.ids, records) == (1, (1,), ALL)
        assert found.last_epoch == found.election_epoch >= OLD_EPOCH + EPOCH_RISE_MIN
        recover_here(world, told)
        assert read_back(world.files, told)[0] == found, "run again it does nothing"

    simulate(fate)


@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize("static", [False, True])
def test_a_crash_at_any_recovery_step_leaves_the_state_before_or_after(static: bool, power_lost: bool) -> None:
    ends = set[bool]()

    async def fate(universe: Universe) -> None:
        told = config(STATIC if static else None)
        files = universe.world_for(1).files
        lay_out(files, static)
        before = read_back(files, told)[0]
        universe.power_off(1)

        async def body(world: SimulatedWorld) -> None:
            recover_here(world, told)

        world = universe.world_for(1)
        universe.kill_after_calls(1, call, power_lost=power_lost)
        if await universe.live(world, body):
            ends.add(True)
            return
        found, records = read_back(universe.world_for(1).files, told)
        assert records == ALL
        assert found.election_epoch >= found.last_epoch, "no record has an epoch that quorum-state does not know"
        if not found.is_only_voter:
            assert (found.voters, found.kraft_version) == (before.voters, before.kraft_version)
            assert (found.end_offset, found.last_epoch) == (before.end_offset, before.last_epoch)
            ends.add(False)
        recover_here(universe.world_for(1), told)
        again, records = read_back(universe.world_for(1).files, told)
        assert again.is_only_voter
        assert records == ALL

    call = 0
    while True not in ends:
        call += 1
        assert call < 1_000
        simulate(fate, call)
    assert ends == {False, True}
    assert call > 20


def test_recovery_refuses_a_damaged_or_missing_log_and_does_not_change_it() -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        with pytest.raises(ConfigurationError, match=f"{METADATA} does not exist"):
            recover_here(world, config())
        lay_out(world.files)
        path = f"{METADATA}/00000000000000000000.log"
        file = world.files.open(path)
        file.pwrite(b"damage", 100)
        file.close()
        with pytest.raises(CorruptData, match="damaged and not a torn tail"):
            recover_here(world, config())
        assert QuorumStateStore(world.files, METADATA).load() == ElectionState(OLD_EPOCH, 2, key_of(2))

    simulate(fate)
