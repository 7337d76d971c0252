"""What is kept of one batch, and that memory stays bounded."""

from __future__ import annotations

import struct

import pytest

from kraft.protocol.records.builder import build_batch, with_max_timestamp
from kraft.protocol.records.compression import GZIP, ZSTD, DecompressedTooLarge
from kraft.protocol.records.record import InvalidRecord, Record
from kraft.protocol.records.record_batch import CREATE_TIME, LOG_APPEND_TIME, RecordBatch
from kraft.storage.cleaner import record_filter
from kraft.storage.cleaner.offset_map import OffsetMap
from kraft.storage.cleaner.record_filter import filter_records, keys_of, shift_timestamps

BASE = 1000
BASE_TIMESTAMP_AT = 27
"""Where a batch has its base timestamp."""


def records(count: int, **fields: bytes | None) -> list[Record]:
    return [
        Record(
            BASE + index,
            5_000 + 300 * index,
            b"k%d" % index,
            fields.get("value", b"v" * index),
            (("h", None), ("é", b"x" * index)),
        )
        for index in range(count)
    ]


def mapped(**offsets: int) -> OffsetMap:
    """Of keys to offsets; it speaks for offsets below 2000."""
    found = OffsetMap(1 << 20)
    for key, offset in offsets.items():
        found.put(key.encode(), offset)
    found.latest_offset = 2000
    return found


def filtered(batch: RecordBatch, offsets: OffsetMap, *, sets_horizon: bool = False) -> tuple[int, RecordBatch]:
    return filter_records(batch, offsets, over_ms=100, new_horizon_ms=7_000, sets_horizon=sets_horizon)


@pytest.mark.parametrize("codec", range(5))
def test_records_kept_by_the_cleaner_are_unchanged(codec: int) -> None:
    written = records(20)
    batch = RecordBatch(build_batch(written, codec=codec, producer_id=3, producer_epoch=1, base_sequence=9))
    superseded = {f"k{index}": 1500 for index in (0, 3, 4, 10, 19)}
    kept, left = filtered(batch, mapped(**superseded))
    left.verify_crc()
    assert kept == left.count == 15
    assert left.records() == [record for record in written if (record.key or b"").decode() not in superseded]
    assert (left.base_offset, left.last_offset) == (batch.base_offset, batch.last_offset)
    assert (left.codec, left.producer_id, left.base_sequence) == (codec, 3, 9)
    assert left.max_timestamp == written[18].timestamp


def test_a_record_with_a_timestamp_beyond_the_largest_does_not_fail_the_cleaning() -> None:
    """A batch is appended by its header, where the topic was not compacted yet. Its log was never cleaned."""
    written = [Record(0, 0, b"a", b"v"), Record(1, 2**63 - 1, b"b", b"v")]
    data = bytearray(build_batch(written))
    struct.pack_into(">q", data, BASE_TIMESTAMP_AT, 5_000)
    batch = RecordBatch(with_max_timestamp(RecordBatch(data), CREATE_TIME, 5_000))
    kept, left = filtered(batch, mapped(a=1500))
    assert (kept, left.max_timestamp) == (1, 2**63 - 1)


def test_a_batch_whose_records_all_stay_is_not_rewritten() -> None:
    batch = RecordBatch(build_batch(records(3), codec=GZIP))
    assert filtered(batch, mapped(k0=BASE)) == (3, batch)


@pytest.mark.parametrize("timestamp_type", [0, LOG_APPEND_TIME])
def test_setting_a_delete_horizon_changes_timestamp_deltas_but_no_timestamp(timestamp_type: int) -> None:
    written = records(3, value=None)
    batch = RecordBatch(build_batch(written, timestamp_type=timestamp_type, log_append_time_ms=9_000))
    kept, left = filtered(batch, mapped(k1=1500))
    assert kept == 2
    assert left.delete_horizon_ms == 7_000
    assert left.records() == [each for each in batch.records() if each.key != b"k1"]
    assert left.max_timestamp == batch.max_timestamp
    assert filtered(left, mapped())[1] is left, "the horizon is set once"


def test_removing_a_delete_horizon_restores_the_same_bytes() -> None:
    payload = bytes(RecordBatch(build_batch(records(5))).payload())
    assert shift_timestamps(bytes(shift_timestamps(payload, 5, -(10**12))), 5, 10**12) == payload


def test_a_batch_of_many_keys_is_validated_before_any_key_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_filter, "KEYS_AT_ONCE", 2)
    whole = build_batch(records(4))
    assert list(keys_of(RecordBatch(whole))) == [(b"k%d" % index, BASE + index) for index in range(4)]
    torn = bytearray(whole)
    torn[-1] ^= 1  # Of the last header of the last record.
    torn[57:61] = (5).to_bytes(4, "big")
    with pytest.raises(InvalidRecord):
        keys_of(RecordBatch(bytes(torn)))


def test_a_batch_that_decompresses_beyond_the_plausible_ratio_is_not_decompressed() -> None:
    bomb = RecordBatch(build_batch([Record(0, 0, b"k", bytes(17 << 20))], codec=ZSTD))
    assert bomb.size < 1 << 20
    with pytest.raises(DecompressedTooLarge):
        keys_of(bomb)
    with pytest.raises(DecompressedTooLarge):
        filtered(bomb, mapped())
