"""A replica that follows, and the leader that it follows, which says what a test lets it say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.common.metadata_versions import METADATA_VERSION_MAX
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kraft.protocol.records.builder import Record, build_batch
from kraft.replication.fetchers.following import FetcherSettings, Truncation
from kraft.replication.fetchers.replica_fetcher import ReplicaFetcher
from kraft.replication.partition import Partition
from kraft.replication.sessions.fetch_session_handler import FetchLimits
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, broker

LEADER = 2


def record(offset: int, leader_epoch: int) -> bytes:
    return build_batch([Record(offset, 1_700_000_000_000, None, b"v%d" % offset, ())], leader_epoch=leader_epoch)


class ScriptedLeader:
    """A connection to a leader whose next answers are given."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.versions: list[int | None] = []
        self.answers: list[Any] = []
        self.ends = {-1: 0, -2: 0}
        self.when_asked: Callable[[], None] = lambda: None

    def version_of(self, key: int) -> int:
        return 17

    async def call(self, request: Any, *, version: int | None = None, timeout: float = 30.0) -> Any:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        self.versions.append(version)
        self.when_asked()
        if request.API_KEY == ApiKey.LIST_OFFSETS:
            wanted = request.topics[0].partitions[0]
            told = ListOffsetsPartitionResponse(partition_index=0, offset=self.ends[wanted.timestamp], leader_epoch=0)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[told])])
        if request.API_KEY == ApiKey.OFFSET_FOR_LEADER_EPOCH:
            ended = EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
            topic = OffsetForLeaderTopicResult(topic="t", partitions=[ended])
            return OffsetForLeaderEpochResponse(topics=[topic])
        if not self.answers:
            await trio.sleep_forever()
        return self.answers.pop(0)

    async def exchange(self, request: Any, *, version: int, timeout: float = 30.0) -> tuple[Any, memoryview]:
        """Decoded from a frame, as in life: the records are views of it."""
        frame = memoryview(bytearray((await self.call(request, version=version)).encode(version)))
        return FetchResponse.decode(frame, version), frame

    def recycle(self, frame: memoryview) -> None:
        frame[:] = bytes(len(frame))


class IgnoredTruncations:
    """A listener who does nothing."""

    def truncating(self, partition: Partition, truncation: Truncation) -> None: ...
    def truncated(self, partition: Partition, truncation: Truncation) -> None: ...


class Follower:
    """A partition (the first of `partitions`) of three replicas that this broker follows, and its fetcher."""

    def __init__(self, made: Broker, partitions: int = 1, **configs: str) -> None:
        made.publish(made.register(2), made.register(3))
        topic_id = made.topic("t", partitions, replicas=(NODE, 2, 3), **configs)
        self.made = made
        self.level = METADATA_VERSION_MAX
        self.leader = ScriptedLeader()
        self.partition: Partition = made.partition("t")
        limits = FetchLimits(500, 1, 10 << 20, 1 << 20)
        settings = FetcherSettings(
            endpoint=lambda broker_id: None,
            broker_epoch=lambda: 5,
            limits=limits,
            backoff_seconds=1.0,
            socket_timeout_seconds=30.0,
            truncations=IgnoredTruncations(),
            metadata_version=lambda: self.level,
        )
        self.fetcher = ReplicaFetcher(LEADER, made.replicas, settings, made.server.services.loggers.get("fetcher"))
        self.topic_id = topic_id

    def write(self, *epochs: int) -> None:
        """One record in each of these leader epochs, in order, as this replica got them before."""
        for epoch in epochs:
            offset = self.partition.log.log_end_offset
            self.partition.log.append_as_follower(record(offset, epoch), now_ms=self.made.world.clock.wall_ms())

    def follow(self, leader_epoch_changes: int = 1) -> None:
        for _ in range(leader_epoch_changes):
            self.made.change(self.topic_id, leader=LEADER)
        self.fetcher.follow(self.partition)

    async def fetch(self, **fields: Any) -> Any:
        """One round with a leader that answers so; the request."""
        data = PartitionData(partition_index=0, **fields)
        topic = FetchableTopicResponse(topic_id=self.topic_id, partitions=[data])
        self.leader.answers.append(FetchResponse(session_id=9, responses=[topic]))
        before = len(self.leader.asked)
        assert await self.fetcher._fetch(self.leader)  # type: ignore[arg-type]
        return self.leader.asked[before]

    @property
    def ends(self) -> tuple[int, int]:
        return self.partition.log.log_end_offset, self.partition.log.high_watermark


@asynccontextmanager
async def follower(universe: Universe) -> AsyncIterator[Follower]:
    async with broker(universe) as made:
        yield Follower(made)
