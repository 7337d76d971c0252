"""Defaults of topics that are changed while a broker runs, each with what it does to a log that is open already."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError
from kraft.metadata.records.config_record import ConfigRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.record_batch import batches
from kraft.storage.log_files import LOG_SUFFIX
from kraft.storage.record_validator import RecordsRejected
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate

WORDS = [bytes(random.Random(number).choices(b"abcdefgh", k=12)) for number in range(200)]


def log_of(made: Broker) -> UnifiedLog:
    return made.partition("t").log


def append(made: Broker, *values: bytes, age_ms: int = 0, **fields: Any) -> None:
    now = made.world.clock.wall_ms()
    data = batch(*(values or (b"v" * 100,)), timestamp_ms=now - age_ms, **fields)
    made.partition("t").append(memoryview(data), 1, now, 0)


def alter(made: Broker, name: str, value: str) -> None:
    """Set a key for all brokers, as kafka-configs does."""
    made.publish(ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=name, value=value))


def play(body: Callable[[Universe, Broker], Awaitable[None]], **configs: str) -> None:
    async def run(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", **configs)
            append(made)
            await body(universe, made)

    simulate(run)


def play_compacted(body: Callable[[Universe, Broker], Awaitable[None]]) -> None:
    """With an empty log that is cleaned as soon as anything of it is dirty."""

    async def run(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
            await body(universe, made)

    simulate(run)


def grown(made: Broker, **fields: Any) -> int:
    """By how many bytes the log grows when the same words are written."""
    before = log_of(made).size
    draw = random.Random(1)
    append(made, *(b" ".join(draw.choices(WORDS, k=40)) for _ in range(60)), **fields)
    return log_of(made).size - before


def count_of_segments(made: Broker) -> int:
    return len(log_of(made).local.segments)


def test_timed_flushes_start_when_a_flush_interval_is_set() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        for interval, flushed in ((None, 0), ("2000", 1)):
            if interval:
                alter(made, "log.flush.interval.ms", interval)
            await universe.sleep(3)
            await made.server.log_tasks.flush_due()
            await universe.sleep(1)
            assert log_of(made).recovery_point == flushed

    play(body)


def test_a_segment_rolls_earlier_by_its_jitter() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        for jitter, count in (("0", 1), ("10000", 2)):
            alter(made, "log.roll.jitter.ms", jitter)
            await universe.sleep(4.9)
            append(made)
            assert count_of_segments(made) == count

    play(body, segment_ms="10000")


def test_a_segment_rolls_at_segment_ms() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        for age, count in (("604800000", 1), ("5000", 2)):
            alter(made, "log.roll.ms", age)
            await universe.sleep(4)
            append(made)
            assert count_of_segments(made) == count

    play(body)


def test_a_segment_rolls_at_segment_bytes() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        append(made, b"v" * 600_000)
        append(made, b"v" * 600_000)
        assert count_of_segments(made) == 1
        alter(made, "log.segment.bytes", "1500000")
        append(made, b"v" * 600_000)
        assert count_of_segments(made) == 2

    play(body)


def test_the_offset_index_has_an_entry_per_index_interval_bytes() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        entries = []
        for interval in ("1000000", "1"):
            alter(made, "log.index.interval.bytes", interval)
            before = log_of(made).local.segments[-1].offset_index.count
            for _ in range(10):
                append(made)
            entries.append(log_of(made).local.segments[-1].offset_index.count - before)
        assert entries == [0, 10]

    play(body)


@pytest.mark.parametrize(("codec", "weak", "strong"), [("gzip", "1", "9"), ("lz4", "1", "17"), ("zstd", "1", "19")])
def test_records_are_compressed_at_the_configured_level(codec: str, weak: str, strong: str) -> None:
    async def body(universe: Universe, made: Broker) -> None:
        sizes = []
        for level in (weak, strong):
            alter(made, f"compression.{codec}.level", level)
            sizes.append(grown(made))
        assert sizes[1] < sizes[0]

    play(body, compression_type=codec)


def test_records_are_compressed_with_the_configured_codec() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        plain = grown(made)
        alter(made, "compression.type", "zstd")
        assert grown(made) < plain // 2

    play(body)


def test_a_batch_larger_than_max_message_bytes_is_refused() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        append(made, b"v" * 3000)
        alter(made, "message.max.bytes", "2000")
        with pytest.raises(ApiError) as refused:
            append(made, b"v" * 3000)
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE

    play(body)


@pytest.mark.parametrize(("side", "age_ms"), [("before", 5000), ("after", -5000)])
def test_a_timestamp_outside_the_configured_bound_is_refused(side: str, age_ms: int) -> None:
    async def body(universe: Universe, made: Broker) -> None:
        append(made, age_ms=age_ms)
        alter(made, f"log.message.timestamp.{side}.max.ms", "1000")
        with pytest.raises(RecordsRejected, match="imestamp"):
            append(made, age_ms=age_ms)

    play(body)


def test_records_get_the_append_time_when_log_append_time_is_set() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        alter(made, "log.message.timestamp.type", "LogAppendTime")
        await universe.sleep(2)
        append(made, age_ms=5000)
        assert log_of(made).local.segments[-1].largest_timestamp == made.world.clock.wall_ms()

    play(body)


def test_produce_responses_wait_for_a_sync_once_flush_messages_is_reached() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        assert made.partition("t").durable_end() == 1
        alter(made, "log.flush.interval.messages", "1")
        assert made.partition("t").durable_end() == 0

    play(body)


@pytest.mark.parametrize(("key", "value"), [("log.retention.ms", "1000"), ("log.retention.bytes", "1")])
def test_closed_segments_are_deleted_by_age_and_by_size(key: str, value: str) -> None:
    async def body(universe: Universe, made: Broker) -> None:
        log_of(made).roll(made.world.clock.wall_ms())
        append(made)
        await universe.sleep(3)
        await made.server.log_tasks.apply_retention()
        assert log_of(made).log_start_offset == 0
        alter(made, key, value)
        await made.server.log_tasks.apply_retention()
        assert log_of(made).log_start_offset > 0

    play(body)


@pytest.mark.parametrize(
    ("key", "before", "after"), [("log.local.retention.ms", 7000, 1000), ("log.local.retention.bytes", -1, 1000)]
)
def test_a_tiered_log_keeps_local_retention_bytes_on_disk(key: str, before: int, after: int) -> None:
    async def body(universe: Universe, made: Broker) -> None:
        assert before in log_of(made).config.local_retention
        alter(made, key, "1000")
        assert after in log_of(made).config.local_retention

    play(body, retention_ms="7000")


def test_transactions_are_appended_unverified_when_verification_is_disabled() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        codes = []
        for value in ("true", "false"):
            alter(made, "transaction.partition.verification.enable", value)
            records = batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
            data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
            request = ProduceRequest(transactional_id="x", acks=1, timeout_ms=1000, topic_data=[data])
            codes.append((await made.ask(request, 9)).responses[0].partition_responses[0].error_code)
        assert codes[0] != 0
        assert codes[1] == 0

    play(body)


def test_records_need_keys_once_the_topic_is_compacted() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        alter(made, "log.cleanup.policy", "compact")
        with pytest.raises(RecordsRejected):
            append(made)

    play(body)


def test_files_of_deleted_segments_are_removed_after_the_delay() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        alter(made, "log.segment.delete.delay.ms", "2000")
        log_of(made).roll(made.world.clock.wall_ms())
        append(made)
        await universe.sleep(3)
        await made.server.log_tasks.apply_retention()
        for seconds, is_there in ((1, True), (2, False)):
            await universe.sleep(seconds)
            await made.server.log_tasks.delete_due()
            names = made.world.files.list_directory("/data/t-0")
            assert any(name.endswith(".deleted") for name in names) is is_there

    play(body, retention_ms="1000")


def test_a_segment_rolls_when_its_index_is_full() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        for size, count in (("10485760", 1), ("16", 2)):
            alter(made, "log.index.size.max.bytes", size)
            append(made)
            assert count_of_segments(made) == count

    play(body, index_interval_bytes="1")


def test_a_produce_needs_min_insync_replicas() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        made.change(made.topic("two", replicas=(NODE, 2)), isr=[NODE])
        codes = []
        for least in ("1", "2"):
            alter(made, "min.insync.replicas", least)
            data = TopicProduceData(name="two", partition_data=[PartitionProduceData(index=0, records=batch(b"v"))])
            request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
            codes.append((await made.ask(request, 9)).responses[0].partition_responses[0].error_code)
        assert codes == [0, ErrorCode.NOT_ENOUGH_REPLICAS]

    play(body)


@pytest.mark.parametrize(
    ("name", "before", "after", "others"),
    [
        ("log.cleaner.min.cleanable.ratio", "1", "0.01", {}),
        ("log.cleaner.min.compaction.lag.ms", "1000000000", "0", {"log.cleaner.min.cleanable.ratio": "0.01"}),
        ("log.cleaner.max.compaction.lag.ms", "1000000000", "1000", {"log.cleaner.min.cleanable.ratio": "1"}),
        ("log.cleaner.io.max.bytes.per.second", "100", "100", {"log.cleaner.min.cleanable.ratio": "0.01"}),
    ],
)
def test_the_cleaner_starts_when_it_is_enabled(name: str, before: str, after: str, others: dict[str, str]) -> None:
    """At 100 bytes a second it takes 40 seconds to read the log and write it."""

    async def body(universe: Universe, made: Broker) -> None:
        for key, value in {**others, name: before}.items():
            alter(made, key, value)
        alter(made, "log.cleanup.policy", "compact")
        for _ in range(2):
            for _ in range(5):
                append(made, key=b"k")
            log_of(made).roll(made.world.clock.wall_ms())
        append(made, key=b"k")
        await made.replicas.flusher.flush(log_of(made))
        size = log_of(made).size
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.server.log_tasks.cleaner.run)
            await universe.sleep(20)
            assert log_of(made).size == size
            alter(made, name, after)
            await universe.sleep(60)
            assert log_of(made).size < size
            nursery.cancel_scope.cancel()

    play(body)


@pytest.mark.parametrize(("backoff_ms", "is_cleaned"), [("1000000", False), ("5000", True)])
def test_the_cleaner_checks_again_after_its_backoff(backoff_ms: str, is_cleaned: bool) -> None:
    async def body(universe: Universe, made: Broker) -> None:
        alter(made, "log.cleaner.min.cleanable.ratio", "0.01")
        alter(made, "log.cleaner.backoff.ms", backoff_ms)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.server.log_tasks.cleaner.run)
            await universe.sleep(1)
            alter(made, "log.cleanup.policy", "compact")
            for _ in range(5):
                append(made, key=b"k")
            log_of(made).roll(made.world.clock.wall_ms())
            append(made, key=b"k")
            await made.replicas.flusher.flush(log_of(made))
            size = log_of(made).size
            await universe.sleep(60)
            assert (log_of(made).size < size) is is_cleaned
            nursery.cancel_scope.cancel()

    play(body)


async def clean(universe: Universe, made: Broker) -> int:
    """Close the segment, and have the cleaner take the log until it is no longer due. How often it did."""
    log_of(made).roll(made.world.clock.wall_ms())
    await made.replicas.flusher.flush(log_of(made))
    before = len(made.events)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.server.log_tasks.cleaner.run)
        await universe.sleep(10)
        nursery.cancel_scope.cancel()
    return sum(event["event"] == "log cleaned" for event in made.events[before:])


def append_keys(made: Broker, *keys: bytes, value: bytes | None = b"v") -> None:
    now = made.world.clock.wall_ms()
    data = build_batch([Record(offset, now, key, value, ()) for offset, key in enumerate(keys)])
    made.partition("t").append(memoryview(data), 1, now, 0)


def keys_of(made: Broker) -> list[bytes]:
    """Of all records that are left, in order."""
    files = [made.world.files.open(segment.path(LOG_SUFFIX)) for segment in log_of(made).segments if segment.size]
    return [
        bytes(record.key or b"")
        for file in files
        for found in batches(file.pread(file.size(), 0))
        for record in found.records()
    ]


def test_tombstones_are_removed_after_delete_retention_ms() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        for retention in ("1000000", "5000"):
            alter(made, "log.cleaner.delete.retention.ms", retention)
            append_keys(made, retention.encode(), value=None)
            for filler in (b"x", b"y"):
                append_keys(made, filler)
                assert await clean(universe, made) == 1
        assert keys_of(made) == [b"1000000", b"x", b"y"]

    play_compacted(body)


@pytest.mark.parametrize(
    ("name", "few", "many", "others"),
    [
        ("log.cleaner.dedupe.buffer.size", "1100000", "11000000", {"log.cleaner.io.buffer.load.factor": "0.01"}),
        ("log.cleaner.io.buffer.load.factor", "0.01", "0.1", {"log.cleaner.dedupe.buffer.size": "1100000"}),
    ],
)
def test_one_cleaning_holds_as_many_keys_as_the_dedupe_buffer_fits(
    name: str, few: str, many: str, others: dict[str, str]
) -> None:
    """A key takes 24 bytes."""

    async def body(universe: Universe, made: Broker) -> None:
        for key, value in others.items():
            alter(made, key, value)
        keys = [b"%d" % number for number in range(667)]
        for value, cleanings in ((few, 3), (many, 1)):
            alter(made, name, value)
            for _ in range(2):
                append_keys(made, *keys)
            assert await clean(universe, made) == cleanings
            assert sorted(keys_of(made)) == sorted(keys)

    play_compacted(body)


def test_the_cleaner_writes_in_chunks_of_its_io_buffer_size() -> None:
    async def body(universe: Universe, made: Broker) -> None:
        disk, appends = universe.disk("broker"), list[str]()
        check = disk.check_faults

        def overhear(operation: str, path: str) -> None:
            if operation == "append" and ".log.cleaned" in path:
                appends.append(path)
            check(operation, path)

        disk.check_faults = overhear  # type: ignore[method-assign]
        for number in range(100):
            append_keys(made, b"%d" % number, value=bytes(10_000))
        for size, count in (("400000", 6), ("4000000", 1)):
            alter(made, "log.cleaner.io.buffer.size", size)
            append_keys(made, b"again")
            appends.clear()
            await clean(universe, made)
            assert len(appends) == count

    play_compacted(body)
