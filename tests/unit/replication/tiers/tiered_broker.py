"""A broker with a remote tier, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.metadata.records.config_record import ConfigRecord
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.records.record_batch import batches
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.metadata_partition import metadata_partition
from kraft.remote.metadata_serde import RemoteLogMetadataRecord, decode_metadata, encode_metadata
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from kraft.replication.tiers.remote_log_manager import RemoteLogManager, topic_id_partition
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated import Universe
from kraft.world.simulated.objects import ObjectServer
from tests.unit.remote.managed_metadata import MemoryTopic
from tests.unit.server.brokers import Broker, batch, broker, simulate

URI = "s3://bucket/kraft"


SETS = (
    "remote.log.storage.system.enable=true",
    f"kraft.remote.storage.uri={URI}",
    "remote.log.manager.task.interval.ms=1000",
)


CONFIG = {
    "remote_storage_enable": "true",
    "local_retention_bytes": "1",
    "retention_ms": "-1",
    "file_delete_delay_ms": "0",
}


ROUND_SECONDS = 3.0
"""More than a round with the requests to the store takes."""


class Metadata(MemoryTopic):
    asked = 0

    async def make_sure(self) -> None:
        self.asked += 1
        await trio.lowlevel.checkpoint()


class Tiered:
    """A broker, the store, and the topic of metadata, which outlive it."""

    def __init__(self, universe: Universe, made: Broker, metadata: Metadata) -> None:
        self.universe = universe
        self.made = made
        self.metadata = metadata
        self.store: ObjectServer = universe.object_servers.at(URI)

    @property
    def log(self) -> UnifiedLog:
        return self.made.partition("t").log

    def append(self, *values: bytes, timestamp_ms: int = 0) -> None:
        now = self.made.world.clock.wall_ms()
        self.made.partition("t").append(memoryview(batch(*values, timestamp_ms=timestamp_ms or now)), 1, now, 0)

    def roll(self) -> None:
        self.log.roll(self.made.world.clock.wall_ms())

    async def rounds(self, count: int = 1) -> None:
        await self.universe.sleep(ROUND_SECONDS * count)

    def set(self, key: str, value: str) -> None:
        self.made.publish(ConfigRecord(resource_type=2, resource_name="t", name=key, value=value))

    @property
    def _place(self) -> TopicIdPartition:
        return topic_id_partition(self.made.partition("t"))

    def copies(self) -> list[RemoteLogSegmentMetadata]:
        """The finished ones, by what the topic of metadata says."""
        cache = RemoteLogMetadataCache()
        for value in self.metadata.records[metadata_partition(self._place, self.metadata.partition_count)]:
            cache.replay(decode_metadata(value))
        return [each for each in cache.segments() if each.is_finished]

    async def write(self, *records: RemoteLogMetadataRecord) -> None:
        """Metadata, as another broker writes them."""
        for record in records:
            partition = metadata_partition(self._place, self.metadata.partition_count)
            await self.metadata.append(partition, encode_metadata(record))

    async def fetch(self, offset: int, isolation: int = 0, **fields: Any) -> Any:
        """What the answer says of the partition."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic="t", topic_id=self.made.replicas.topic_ids["t"], partitions=[partition])
        fields = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
        answer = await self.made.ask(FetchRequest(isolation_level=isolation, topics=[topic], **fields))
        return answer.responses[0].partitions[0]

    async def values(self, start: int = 0) -> list[bytes]:
        """Of every record from `start` on, as a consumer reads them, fetch by fetch."""
        found: list[bytes] = []
        offset = start
        while offset < self.log.high_watermark:
            told = await self.fetch(offset)
            assert told.error_code == 0
            for each in batches(told.records, partial_tail=True):
                found += [bytes(record.value or b"") for record in each.records() if record.offset >= offset]
                offset = each.next_offset
        return found

    async def offset(self, timestamp: int) -> tuple[int, int, int]:
        """(error code, offset, timestamp) of ListOffsets."""
        asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
        answer = await self.made.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]))
        told = answer.topics[0].partitions[0]
        return told.error_code, told.offset, told.timestamp


@asynccontextmanager
async def started(universe: Universe, metadata: Metadata) -> AsyncIterator[Tiered]:
    async with broker(universe, sets=SETS) as made:
        store = made.world.objects.open(URI, timeout_seconds=5.0)
        manager = RemoteLogManager(
            made.replicas, metadata, store, lambda: made.replicas.config, made.server.services.log
        )
        made.replicas.remote = manager
        async with trio.open_nursery() as nursery:
            nursery.start_soon(manager.run)
            yield Tiered(universe, made, metadata)
            nursery.cancel_scope.cancel()


def play(body: Callable[[Tiered], Awaitable[None]], **config: str) -> None:
    async def run(universe: Universe) -> None:
        async with started(universe, Metadata()) as tiered:
            tiered.made.topic("t", **CONFIG | config)
            await body(tiered)

    simulate(run)


async def fill(tiered: Tiered, segments: int = 4) -> list[bytes]:
    """Closed segments of two records each, of which all but one have left the disk, and one record in the active
    one."""
    for number in range(segments):
        tiered.append(b"%d" % number, b"%d" % (number + 100), timestamp_ms=1000 * (number + 1))
        tiered.roll()
    tiered.append(b"last", timestamp_ms=900_000)
    await tiered.rounds()
    assert tiered.log.segments[0].base_offset == 2 * segments
    return [b"%d" % (number + more) for number in range(segments) for more in (0, 100)] + [b"last"]
