"""Offsets by time: one batch is looked into, and others are served meanwhile."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.compression import LZ4, NONE, ZSTD
from kraft.protocol.records.record import Record
from kraft.replication.time_lookups import RECORDS_A_SLICE, find_by_timestamp
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.support import NOW_MS, Machine, found_by_time


def appended(log: UnifiedLog, timestamps: list[int], codec: int) -> None:
    records = [Record(index, timestamp, None, b"v") for index, timestamp in enumerate(timestamps)]
    log.append_as_leader(build_batch(records, codec=codec), 7, now_ms=NOW_MS)


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(NOW_MS, NOW_MS + 20), min_size=1, max_size=5), st.sampled_from([NONE, LZ4, ZSTD])
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(NOW_MS - 1, NOW_MS + 21),
    st.integers(0, 30),
)
def test_a_lookup_by_time_finds_the_first_record_at_or_after_the_time(
    batches: list[tuple[list[int], int]], wanted: int, log_start: int
) -> None:
    log = Machine().log(LogConfig(segment_bytes=250, index_interval_bytes=1))
    for timestamps, codec in batches:
        appended(log, timestamps, codec)
    log.update_high_watermark(log.log_end_offset)
    log.delete_records_before(min(log_start, log.log_end_offset))
    every = enumerate(timestamp for timestamps, _ in batches for timestamp in timestamps)
    expected = [(each, offset, 7) for offset, each in every if each >= wanted and offset >= log.log_start_offset]
    assert found_by_time(log, wanted) == (expected[0] if expected else None)


def kinds(steps: Generator[object, None, object]) -> list[str]:
    """What each step was; jobs are done."""
    seen: list[str] = []
    for job in steps:
        seen.append("job" if callable(job) else "pause")
        if callable(job):
            job()
    return seen


def test_a_lookup_by_time_yields_between_records_and_decompresses_in_a_worker() -> None:
    log = Machine().log()
    appended(log, [NOW_MS + index for index in range(RECORDS_A_SLICE + 1)], LZ4)
    assert kinds(find_by_timestamp(log, NOW_MS + RECORDS_A_SLICE)) == ["job", "pause"]
    assert kinds(find_by_timestamp(log, NOW_MS + 5)) == ["job"]


def test_a_lookup_by_time_skips_records_before_the_log_start() -> None:
    log = Machine().log()
    for _ in range(2):
        appended(log, [NOW_MS] * (RECORDS_A_SLICE + 1), NONE)
    log.update_high_watermark(log.log_end_offset)
    steps = find_by_timestamp(log, NOW_MS)
    log.delete_records_before(RECORDS_A_SLICE + 1)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == (NOW_MS, RECORDS_A_SLICE + 1, 7)


def test_a_lookup_by_time_refuses_a_batch_with_an_excessive_compression_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.replication.time_lookups.DECODED_BYTES_MAX", 1000)
    log = Machine().log()
    log.append_as_leader(build_batch([Record(0, NOW_MS, None, bytes(5000))], codec=ZSTD), 7, now_ms=NOW_MS)
    with pytest.raises(ApiError, match="the batch at offset 0") as refused:
        found_by_time(log, NOW_MS)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
