"""Batches whose records must be looked at: what becomes of them, and in which steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import LOG_APPEND_TIME, RecordBatch
from kraft.protocol.records.validation import JUDGED_A_SLICE
from kraft.storage.log_config import LogConfig
from kraft.storage.record_validator import BUILT_A_SLICE, RecordsRejected, validate_records
from kraft.world.steps import at_once
from tests.unit.storage.support import NOW_MS

COMPACTED = LogConfig(cleanup_policy=("compact",))
HOUR_MS = 3_600_000
BOUNDED = LogConfig(
    cleanup_policy=("compact",), message_timestamp_before_max_ms=HOUR_MS, message_timestamp_after_max_ms=HOUR_MS
)


def batch_of(*records: Record, codec: int = NONE) -> RecordBatch:
    return RecordBatch(build_batch(records, codec=codec, producer_id=7, producer_epoch=1, base_sequence=3))


def sound(count: int, codec: int = NONE) -> RecordBatch:
    records = (Record(n, NOW_MS + n % 3, b"k%d" % n, b"v" * (n % 40), (("h", b"x"),) * (n % 2)) for n in range(count))
    return batch_of(*records, codec=codec)


def validated(batch: RecordBatch, config: LogConfig, codec: int | None = None) -> RecordBatch:
    return at_once(validate_records(batch, config, batch.codec if codec is None else codec, NOW_MS))


@pytest.mark.parametrize("source", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("target", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_recompression_keeps_the_bytes_of_the_records(source: int, target: int) -> None:
    batch = sound(50, source)
    changed = validated(batch, LogConfig(), target)
    changed.verify_crc()
    assert changed.codec == target
    assert bytes(changed.payload()) == bytes(batch.payload())
    assert changed.records() == batch.records()
    assert (changed.producer_id, changed.producer_epoch, changed.base_sequence) == (7, 1, 3)
    assert (changed is batch) == (source == target)


def test_recompression_and_append_time_work_together() -> None:
    changed = validated(sound(5), LogConfig(message_timestamp_type="LogAppendTime"), LZ4)
    assert (changed.timestamp_type, changed.max_timestamp) == (LOG_APPEND_TIME, NOW_MS)
    assert {record.timestamp for record in changed.records()} == {NOW_MS}


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_only_offsets_change_when_a_batch_is_renumbered(codec: int) -> None:
    records = [Record(offset, NOW_MS + offset, b"k", None, (("h", None),)) for offset in (0, 2, 2, 5)]
    batch = RecordBatch(build_batch(records, codec=codec, last_offset=3))
    changed = validated(batch, COMPACTED)
    assert [record.offset for record in changed.records()] == [0, 1, 2, 3]
    assert [(record.timestamp, record.key, record.value, record.headers) for record in changed.records()] == [
        (record.timestamp, record.key, record.value, record.headers) for record in records
    ]
    assert (changed.count, changed.last_offset_delta, changed.max_timestamp) == (4, 3, NOW_MS + 5)


def test_every_invalid_record_is_named_in_the_error() -> None:
    records = [Record(n, NOW_MS, None if n in (3, BUILT_A_SLICE + 1) else b"k", b"", ()) for n in range(600)]
    with pytest.raises(RecordsRejected) as rejected:
        validated(batch_of(*records, codec=ZSTD), COMPACTED)
    assert rejected.value.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in rejected.value.record_errors] == [3, BUILT_A_SLICE + 1]


times = st.sampled_from([-1, 0, 5, NOW_MS - HOUR_MS, NOW_MS - HOUR_MS - 1, NOW_MS, NOW_MS + HOUR_MS + 1])


@given(st.lists(times, min_size=1, max_size=4))
def test_validation_of_timestamps_agrees_with_a_check_of_each_record(timestamps: list[int]) -> None:
    batch = batch_of(*(Record(n, timestamp, b"k", b"", ()) for n, timestamp in enumerate(timestamps)))
    outside = [n for n, each in enumerate(timestamps) if each != -1 and abs(each - NOW_MS) > HOUR_MS]
    if not outside:
        assert validated(batch, BOUNDED).max_timestamp == max(timestamps)
        return
    with pytest.raises(RecordsRejected) as rejected:
        validated(batch, BOUNDED)
    assert rejected.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in rejected.value.record_errors] == outside


def test_record_loops_yield_and_decompression_runs_in_a_worker() -> None:
    kinds: list[str] = []
    for job in validate_records(sound(JUDGED_A_SLICE + 10, LZ4), LogConfig(), GZIP, NOW_MS):
        kinds.append("pause" if job is None else "job")
        if job is not None:
            job()
    assert kinds == ["job", "pause", "job"]


def test_an_exception_raised_in_a_worker_becomes_an_error_code() -> None:
    damaged = bytearray(sound(5, GZIP).view)
    damaged[70:90] = bytes(20)
    with pytest.raises(ApiError) as refused:
        validated(RecordBatch(damaged), COMPACTED)
    assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
