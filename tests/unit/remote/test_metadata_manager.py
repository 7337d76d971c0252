"""Every partition's cache has what the topic says of it, whoever reads when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import trio

from kraft.common.errors import ProtocolError
from kraft.protocol.messages.remote_partition_delete_metadata_record import (
    RemotePartitionDeleteMetadataRecord,
    TopicIdPartitionEntry,
)
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.metadata_manager import PartitionMetadata, ReadRecords, RemoteLogMetadataManager
from kraft.remote.metadata_serde import RemoteLogMetadataRecord, encode_metadata
from kraft.remote.segment_copies import MetadataNotWritten
from kraft.remote.segment_metadata import TopicIdPartition
from tests.unit.remote.managed_metadata import MemoryTopic, numbers
from tests.unit.remote.remote_metadata import SNAPSHOT
from tests.unit.remote.support import FINISHED, PARTITION, segment, uuid

PARTITIONS = [TopicIdPartition("t", uuid(7), number) for number in range(5)]


async def copy(metadata: PartitionMetadata, partition: TopicIdPartition, number: int) -> None:
    new = replace(segment(number, number * 10, number * 10 + 9), topic_id_partition=partition)
    await metadata.append(new.to_record())
    assert metadata.cache.get(new.segment_id) is not None
    await metadata.append(new.state_update(FINISHED, broker_id=1, now_ms=0))
    assert metadata.cache.get(new.segment_id).is_finished  # type: ignore[union-attr]


@pytest.fixture(autouse=True)
def _no_record_is_replayed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = RemoteLogMetadataCache.replay
    replayed: list[tuple[RemoteLogMetadataCache, bytes]] = []

    def replay_once(cache: RemoteLogMetadataCache, record: RemoteLogMetadataRecord) -> bool:
        value = encode_metadata(record)
        assert not any(each is cache and seen == value for each, seen in replayed)
        replayed.append((cache, value))
        return replay(cache, record)

    monkeypatch.setattr(RemoteLogMetadataCache, "replay", replay_once)


def run(body: Callable[[MemoryTopic], Awaitable[None]], seed: int = 0) -> MemoryTopic:
    topic = MemoryTopic(seed)
    trio.run(body, topic)
    return topic


@pytest.mark.parametrize("seed", range(20))
def test_written_metadata_is_replayed_by_its_writer_and_by_later_readers(seed: int) -> None:
    async def write(manager: RemoteLogMetadataManager, partition: TopicIdPartition, first: int) -> None:
        for number in range(first, first + 5):
            await copy(manager.follow(partition), partition, number)

    async def body(topic: MemoryTopic) -> None:
        one, other = RemoteLogMetadataManager(topic), RemoteLogMetadataManager(topic)
        async with trio.open_nursery() as nursery:
            for index, partition in enumerate(PARTITIONS):
                nursery.start_soon(write, (one, other)[index % 2], partition, 10 * index)
        for manager in (one, other, RemoteLogMetadataManager(topic)):
            for partition in PARTITIONS:
                followed = manager.follow(partition)
                await followed.catch_up()
                assert numbers(followed.cache) == topic.expected(partition)
                assert len(numbers(followed.cache)) == 5

    run(body, seed)


def test_an_added_partition_is_read_from_the_start_and_no_other_is_read_again() -> None:
    async def body(topic: MemoryTopic) -> None:
        manager = RemoteLogMetadataManager(topic)
        first, later = PARTITIONS[:2]
        topic.partition_count = 1
        for number in range(4):
            await copy(manager.follow(first), first, number)
            await copy(RemoteLogMetadataManager(topic).follow(later), later, 10 + number)
        await manager.follow(first).catch_up()
        before = manager.follow(first).cache.segments()
        added = manager.follow(later)
        assert numbers(added.cache) == []
        await added.catch_up()
        assert numbers(added.cache) == [10, 11, 12, 13]
        assert manager.follow(first).cache.segments() == before
        reads = len(topic.reads)
        await manager.follow(first).catch_up()
        assert len(topic.reads) == reads

    run(body)


def test_a_partition_added_during_a_read_misses_no_record() -> None:
    async def body(topic: MemoryTopic) -> None:
        topic.partition_count = 1
        first, later = PARTITIONS[:2]
        for number in range(4):
            await copy(RemoteLogMetadataManager(topic).follow(later), later, number)
            await copy(RemoteLogMetadataManager(topic).follow(first), first, 10 + number)
        manager = RemoteLogMetadataManager(topic)
        read = topic.read

        async def read_and_add(partition: int, offset: int) -> ReadRecords:
            if offset > 3:
                manager.follow(later)
            return await read(partition, offset)

        topic.read = read_and_add  # type: ignore[method-assign]
        await manager.follow(first).catch_up()
        await manager.follow(later).catch_up()
        assert numbers(manager.follow(first).cache) == [10, 11, 12, 13]
        assert numbers(manager.follow(later).cache) == [0, 1, 2, 3]

    run(body)


def test_a_forgotten_partition_starts_empty() -> None:
    async def body(topic: MemoryTopic) -> None:
        manager = RemoteLogMetadataManager(topic)
        await copy(manager.follow(PARTITION), PARTITION, 1)
        manager.forget(PARTITION)
        manager.forget(PARTITION)
        again = manager.follow(PARTITION)
        assert numbers(again.cache) == []
        await again.catch_up()
        assert numbers(again.cache) == [1]

    run(body)


def test_a_recreated_metadata_topic_is_read_from_its_start_without_old_state() -> None:
    async def body(topic: MemoryTopic) -> None:
        topic.partition_count = 1
        manager = RemoteLogMetadataManager(topic)
        before = manager.follow(PARTITION)
        for number in range(3):
            await copy(before, PARTITION, number)
        topic.topic_id, topic.records = uuid(2), {0: []}
        for number in range(10, 14):  # Beyond where the earlier one was left.
            await copy(RemoteLogMetadataManager(topic).follow(PARTITION), PARTITION, number)
        again = manager.follow(PARTITION)
        await again.catch_up()
        assert numbers(again.cache) == [10, 11, 12, 13]
        for late in (before.catch_up, lambda: copy(before, PARTITION, 4)):
            with pytest.raises(MetadataNotWritten, match="was deleted and recreated"):
                await late()
        assert numbers(before.cache) == [0, 1, 2]

    run(body)


def test_a_metadata_topic_recreated_during_a_read_mixes_no_records() -> None:
    async def body(topic: MemoryTopic) -> None:
        topic.partition_count = 1
        for number in range(4):
            await copy(RemoteLogMetadataManager(topic).follow(PARTITION), PARTITION, number)
        read = topic.read

        async def read_late(partition: int, offset: int) -> ReadRecords:
            topic.topic_id = uuid(2)
            return await read(partition, offset)

        topic.read = read_late  # type: ignore[method-assign]
        followed = RemoteLogMetadataManager(topic).follow(PARTITION)
        with pytest.raises(MetadataNotWritten, match="was deleted and recreated"):
            await followed.catch_up()
        assert numbers(followed.cache) == []

    run(body)


def test_a_partition_can_be_forgotten_while_the_metadata_topic_does_not_exist() -> None:
    async def body(topic: MemoryTopic) -> None:
        manager = RemoteLogMetadataManager(topic)
        await copy(manager.follow(PARTITION), PARTITION, 1)
        topic.partition_count = 0
        manager.forget(PARTITION)
        topic.partition_count = 2
        assert numbers(manager.follow(PARTITION).cache) == []

    run(body)


def test_records_of_other_partitions_and_snapshot_records_change_nothing() -> None:
    async def body(topic: MemoryTopic) -> None:
        topic.partition_count = 1
        await topic.append(0, encode_metadata(SNAPSHOT))
        entry = TopicIdPartitionEntry(name="t", id=uuid(7), partition=1)
        await topic.append(0, encode_metadata(RemotePartitionDeleteMetadataRecord(topic_id_partition=entry)))
        manager = RemoteLogMetadataManager(topic)
        for partition in PARTITIONS[:2]:
            await manager.follow(partition).catch_up()
        states = [manager.follow(partition).cache.delete_state for partition in PARTITIONS[:2]]
        assert states == [None, 0]

    run(body)


def test_an_unreadable_metadata_record_blocks_all_decisions() -> None:
    async def body(topic: MemoryTopic) -> None:
        topic.partition_count = 1
        await topic.append(0, b"junk")
        for _ in range(2):
            with pytest.raises(ProtocolError):
                await RemoteLogMetadataManager(topic).follow(PARTITION).catch_up()

    run(body)


def test_a_metadata_topic_that_lost_its_end_blocks_all_decisions() -> None:
    async def body(topic: MemoryTopic) -> None:
        async def too_far(partition: int) -> int:
            return 10

        topic.end_offset = too_far  # type: ignore[method-assign]
        with pytest.raises(MetadataNotWritten, match="ends at 0, before 10"):
            await RemoteLogMetadataManager(topic).follow(PARTITION).catch_up()

    run(body)
