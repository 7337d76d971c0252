"""Compaction: what is kept, what goes when, and that offsets never change."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from kraft.protocol.records.compression import GZIP, NONE, ZSTD
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.protocol.records.record_batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, with_offset_and_epoch
from kraft.storage.cleaner.log_to_clean import log_to_clean
from kraft.storage.log_config import LogConfig
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.cleaner.cleaning import CONFIG, clean, put
from tests.unit.storage.support import NOW_MS, Machine, batch_of, batches_in, content


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_only_the_last_record_of_a_key_stays_and_keeps_its_offset(machine: Machine) -> None:
    log = machine.log(CONFIG)
    last = {}
    for index in range(60):
        key = b"k%d" % (index * 7 % 5)
        last[key] = (put(log, key, b"v%d" % index), key, b"v%d" % index)
    clean(log)
    assert content(log) == sorted(last.values())
    assert log.log_end_offset == 60
    assert sum(1 for segment in log.segments if segment.size) <= 3  # emptied ones are merged by the next cleaning


def test_long_keys_are_distinguished(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for index in range(20):
        put(log, b"k" * 40 + b"%d" % (index % 3), b"%d" % index)
    clean(log)
    assert [value for _, _, value in content(log)] == [b"17", b"18", b"19"]


def test_cleaned_batches_keep_their_offset_span_and_codec(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for codec in range(5):
        log.append_as_leader(
            batch_of(b"a", b"b", b"c", keys=(b"x", b"only%d" % codec, b"x"), codec=codec), 0, now_ms=NOW_MS
        )
    put(log, b"z", b"end")
    clean(log)
    for codec, batch in enumerate(batches_in(log)[:5]):
        batch.verify_crc()
        assert (batch.base_offset, batch.last_offset, batch.codec) == (codec * 3, codec * 3 + 2, codec)
    assert [key for _, key, _ in content(log)] == [b"only0", b"only1", b"only2", b"only3", b"only4", b"x", b"z"]


def test_a_tombstone_stays_until_its_delete_horizon_has_passed(machine: Machine) -> None:
    log = machine.log(CONFIG)
    put(log, b"k", b"v")
    put(log, b"k", None)
    put(log, b"other", b"v")
    done = clean(log)
    assert content(log) == [(1, b"k", None), (2, b"other", b"v")]
    assert batches_in(log)[0].delete_horizon_ms == NOW_MS + 1000
    assert batches_in(log)[0].records()[0].timestamp == NOW_MS
    put(log, b"x", b"v")
    done = clean(log, now_ms=NOW_MS + 999, checkpoint=done)
    assert (1, b"k", None) in content(log)
    put(log, b"y", b"v")
    clean(log, now_ms=NOW_MS + 1000, checkpoint=done)
    assert [key for _, key, _ in content(log)] == [b"other", b"x", b"y"]


def test_records_beyond_the_offset_map_stay_unchanged(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for index in range(30):
        put(log, b"k%d" % (index % 15), b"%d" % index)
    end = clean(log, map_bytes_max=24 * 5)
    assert 0 < end < 30
    kept = content(log)
    assert [offset for offset, _, _ in kept if offset >= end] == list(range(end, 30))
    assert {key: value for _, key, value in kept} == {b"k%d" % n: b"%d" % (n + 15) for n in range(15)}


def test_the_batch_at_the_high_watermark_and_a_producers_last_batch_stay_as_empty_batches(machine: Machine) -> None:
    log = machine.log(CONFIG)
    put(log, b"k", b"1", producer_id=5, producer_epoch=2, base_sequence=0)
    put(log, b"k", b"2", producer_id=5, producer_epoch=2, base_sequence=1)
    put(log, b"k", b"3")
    clean(log)
    found = [(batch.base_offset, batch.count, batch.producer_id, batch.base_sequence) for batch in batches_in(log)]
    assert found == [(1, 0, 5, 1), (2, 1, -1, -1)]
    log.close()
    assert machine.log(CONFIG, clean=True).producers.producers[5].last_sequence == 1


def test_records_without_a_key_are_removed_and_the_one_at_the_high_watermark_leaves_an_empty_batch(
    machine: Machine,
) -> None:
    log = machine.log(CONFIG)
    for _ in range(3):
        put(log, None, b"no key")
    clean(log)
    assert [(batch.base_offset, batch.count) for batch in batches_in(log)] == [(2, 0)]
    assert log.log_end_offset == 3


def test_the_active_segment_and_unflushed_segments_are_not_cleaned(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for index in range(30):
        put(log, b"k", b"%d" % index)
    assert log_to_clean(log, None, NOW_MS).cleanable_bytes == 0
    log.flush()
    assert log_to_clean(log, None, NOW_MS).first_uncleanable_offset == log.active_segment.base_offset


def test_records_younger_than_min_compaction_lag_are_not_cleaned(machine: Machine) -> None:
    log = machine.log(LogConfig(cleanup_policy=("compact",), segment_bytes=300, min_compaction_lag_ms=1000))
    for index in range(30):
        put(log, b"k", b"%d" % index, timestamp=NOW_MS + index * 100)
    log.flush()
    assert log_to_clean(log, None, NOW_MS).first_uncleanable_offset == 0
    bound = log_to_clean(log, None, NOW_MS + 2500).first_uncleanable_offset
    assert 0 < bound <= 16


def test_a_log_is_due_for_cleaning_by_its_dirty_ratio_or_by_max_compaction_lag(machine: Machine) -> None:
    log = machine.log(
        LogConfig(
            cleanup_policy=("compact",), segment_bytes=300, max_compaction_lag_ms=10_000, min_cleanable_dirty_ratio=0.9
        )
    )
    for index in range(30):
        put(log, b"k%d" % index, b"v")
    log.flush()
    middle = log.segments[len(log.segments) // 2].base_offset
    assert not log_to_clean(log, middle, NOW_MS).is_due
    assert log_to_clean(log, None, NOW_MS).is_due
    assert log_to_clean(log, middle, NOW_MS + 10_001).is_due


def marker(log: UnifiedLog, producer_id: int, control_type: int) -> None:
    batch = build_marker_batch(
        TransactionMarker(control_type, 0),
        offset=0,
        timestamp_ms=NOW_MS,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
    )
    log.append_as_leader(batch, 0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def test_aborted_records_are_removed_immediately_and_markers_after_their_delete_horizon(machine: Machine) -> None:
    log = machine.log(CONFIG)
    put(log, b"k", b"kept")
    put(log, b"k", b"aborted", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker(log, 1, ControlRecordType.ABORT)
    put(log, b"c", b"committed", producer_id=2, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker(log, 2, ControlRecordType.COMMIT)
    put(log, b"end", b"v")
    done = clean(log)
    assert content(log) == [(0, b"k", b"kept"), (3, b"c", b"committed"), (5, b"end", b"v")]
    assert [(one.producer_id, one.last_offset) for one in log.aborted_transactions(0, 6)] == [(1, 2)]
    assert [batch.base_offset for batch in batches_in(log) if batch.is_control] == [2, 4]
    log.producers.producers.clear()
    put(log, b"x", b"v")
    done = clean(log, now_ms=NOW_MS + 1, checkpoint=done)
    # the last trace of the aborted data, which kept its marker
    assert 1 not in [batch.base_offset for batch in batches_in(log)]
    put(log, b"y", b"v")
    done = clean(log, now_ms=NOW_MS + 2000, checkpoint=done)
    assert [batch.delete_horizon_ms for batch in batches_in(log) if batch.is_control] == [NOW_MS + 3000, None]
    put(log, b"z", b"v")
    clean(log, now_ms=NOW_MS + 3000, checkpoint=done)
    # the commit's data is still there
    assert [batch.base_offset for batch in batches_in(log) if batch.is_control] == [4]
    assert not log.aborted_transactions(0, 6)


def poisoned(payload: bytes, count: int, codec: int = NONE) -> bytearray:
    """A batch with a right CRC whose records cannot be decoded, as header-only validation used to store it."""
    data = bytearray(batch_of(b"")[:HEADER_SIZE]) + payload
    data[8:12] = (len(data) - LOG_OVERHEAD).to_bytes(4, "big")
    data[21:23] = codec.to_bytes(2, "big")
    data[23:27], data[57:61] = (count - 1).to_bytes(4, "big"), count.to_bytes(4, "big")
    data[17:21] = crc32c(bytes(data[CRC_START:])).to_bytes(4, "big")
    return data


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
@pytest.mark.parametrize("first_good", [0, 1])
def test_a_batch_that_cannot_be_decoded_stays_and_other_batches_are_cleaned(
    machine: Machine, codec: int, first_good: int
) -> None:
    """A record in front of the garbage, in the same batch, supersedes nothing: nobody could read it."""
    log = machine.log(CONFIG)
    put(log, b"a", b"old")
    put(log, b"b", b"old")
    good = batch_of(b"unreadable", keys=(b"a",))[HEADER_SIZE:] * first_good
    poison = poisoned(good + b"\xee" * 50, 5, codec)
    at = log.log_end_offset
    log.append_as_follower(with_offset_and_epoch(poison, at, 0) + poison[HEADER_SIZE:], now_ms=NOW_MS)
    for index in range(12):
        put(log, b"b", b"%d" % index)
    end = clean(log)
    assert end == log.active_segment.base_offset
    assert [batch.base_offset for batch in batches_in(log)][:2] == [0, at]
    kept = next(batch for batch in batches_in(log) if batch.base_offset == at)
    kept.verify_crc()
    assert bytes(kept.view[HEADER_SIZE:]) == bytes(poison[HEADER_SIZE:])
    assert content(log, 0, at) == [(0, b"a", b"old")]
    assert content(log, at + 5)[-1] == (log.log_end_offset - 1, b"b", b"11")
