"""Small things that the tests of the quorum share: a serde over text, batches, a node, a listener."""

from __future__ import annotations

import random

from kraft.common.logging import Loggers
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.log_state import Batch, LogState
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.core.voter_set import Endpoint, ReplicaKey, Voter, VoterSet, VoterSetHistory
from kraft.raft.ports import CommittedBatch, LeaderAndEpoch
from kraft.raft.snapshot.snapshot_reader import SnapshotReader
from kraft.world.real import RealWorld


class TextSerde:
    """Records are strings."""

    def encode(self, record: str, level: int | None) -> bytes:
        return record.encode()

    def decode(self, value: bytes | memoryview) -> str:
        return bytes(value).decode()


class RecordingListener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.records: list[str] = []
        self.end_offset = 0
        self.snapshots: list[int] = []
        self.leaders: list[LeaderAndEpoch] = []

    def handle_commit(self, batches: list[CommittedBatch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.end_offset, "commits have no holes"
            self.records.extend(batch.records)
            self.end_offset = batch.end_offset

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        self.records = [record for batch in reader.batches() for record in batch.records]
        self.end_offset = reader.snapshot.offset
        self.snapshots.append(reader.snapshot.offset)
        reader.close()

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leaders.append(leader)


def data_batch(base_offset: int, *values: str, epoch: int = 1) -> bytes:
    return build_batch(
        [Record(base_offset + index, 1_000, None, value.encode()) for index, value in enumerate(values)],
        leader_epoch=epoch,
    )


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes(15) + bytes([node_id]))


def voter_of(node_id: int, host: str = "127.0.0.1", port: int = 0) -> Voter:
    return Voter(key_of(node_id), (Endpoint("CONTROLLER", host, port or 9000 + node_id),), 0, 1)


def voters_of(*node_ids: int) -> VoterSet:
    return VoterSet(voter_of(node_id) for node_id in node_ids)


def node(
    node_id: int,
    voters: VoterSet,
    *,
    epochs: tuple[int, ...] = (),
    election: ElectionState | None = None,
    kraft_version: int = 1,
    now_ms: int = 0,
    **options: bool,
) -> RaftNode:
    """A replica whose log holds one record of each of `epochs`. `options` are of its QuorumConfig."""
    batches = [Batch(offset, offset, epoch) for offset, epoch in enumerate(epochs)]
    log = LogState.recover(VoterSetHistory(voters, kraft_version), 0, (), batches)
    config = QuorumConfig(local=key_of(node_id), endpoints=voter_of(node_id).endpoints, **options)
    return RaftNode(config, log, election or ElectionState(epochs[-1] if epochs else 0), random.Random(node_id), now_ms)


def quiet_world(seed: int = 1) -> tuple[RealWorld, Loggers]:
    world = RealWorld(seed=seed, log_sink=lambda line: None)
    return world, Loggers(world.log_sink, world.clock)
