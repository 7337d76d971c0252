"""A manager of remote metadata over a log in memory."""

from __future__ import annotations

import random

import trio

from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.metadata_manager import ReadRecords
from kraft.remote.metadata_partition import metadata_partition
from kraft.remote.metadata_serde import decode_metadata
from kraft.remote.segment_metadata import TopicIdPartition
from tests.unit.remote.support import uuid


class MemoryTopic:
    """Implements `MetadataTopic`. Reads give a few records, and take a few turns of the loop."""

    partition_count = 2
    topic_id = uuid(1)

    def __init__(self, seed: int = 0) -> None:
        self.records: dict[int, list[bytes]] = {0: [], 1: []}
        self.chance = random.Random(seed)
        self.reads: list[tuple[int, int]] = []

    async def append(self, partition: int, value: bytes) -> int:
        await self.pause()
        self.records[partition].append(value)
        await self.pause()
        return self.records[partition].index(value)

    async def read(self, partition: int, offset: int) -> ReadRecords:
        self.reads.append((partition, offset))
        await self.pause()
        found = list(enumerate(self.records[partition]))[offset : offset + self.chance.randint(1, 3)]
        await self.pause()
        return ReadRecords(found, offset + len(found))

    async def end_offset(self, partition: int) -> int:
        await self.pause()
        return len(self.records[partition])

    async def pause(self) -> None:
        for _ in range(self.chance.randrange(3)):
            await trio.lowlevel.checkpoint()

    def expected(self, partition: TopicIdPartition) -> list[int]:
        cache = RemoteLogMetadataCache()
        for value in self.records[metadata_partition(partition, 2)]:
            record = decode_metadata(value)
            if record.remote_log_segment_id.topic_id_partition.partition == partition.partition:  # type: ignore[union-attr]
                cache.replay(record)
        return numbers(cache)


def numbers(cache: RemoteLogMetadataCache) -> list[int]:
    return [each.segment_id[-1] for each in cache.segments() if each.is_finished]
