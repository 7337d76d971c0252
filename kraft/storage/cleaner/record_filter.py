"""Filters a batch by the offset map of a cleaning. Kept records are copied as bytes, without building record objects.

Memory is bounded: the decompressed size is limited in proportion to the batch's size, and records are read one at a
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kraft.protocol.records.builder import rebuild_batch
from kraft.protocol.records.record_batch import LOG_APPEND_TIME, NO_TIMESTAMP, RecordBatch
from kraft.protocol.records.record_keys import walk_records
from kraft.protocol.records.varint import append_varint, read_varint
from kraft.storage.cleaner.offset_map import OffsetMap

DECODED_FREELY_BYTES_MAX = 16 << 20
DECODED_RATIO_MAX = 32
DECODED_BYTES_MAX = 128 << 20
"""A stored batch may decompress to DECODED_FREELY_BYTES_MAX, or to DECODED_RATIO_MAX times its size, but at most to
DECODED_BYTES_MAX, which is the limit for producers."""
TIMESTAMP_MAX = 2**63 - 1
KEYS_AT_ONCE = 20_000
"""Limit of keys of one batch in memory. A larger batch is checked first and then read again."""


class Verdict(NamedTuple):
    """The result of filtering a batch: `kept` counts the records that are left. `batch` is the batch to write if `kept`
    is not 0."""

    kept: int
    batch: RecordBatch


def keys_of(batch: RecordBatch) -> Iterator[tuple[bytes, int]]:
    """Yield each key with the offset of its record. Raises InvalidRecord, CompressionError before any key is
    yielded."""
    data, base = _payload(batch), batch.base_offset
    if batch.count <= KEYS_AT_ONCE:
        return iter(
            [
                (key, base + offset_delta)
                for _, _, _, offset_delta, key, _ in walk_records(data, batch.count)
                if key is not None
            ]
        )
    for _ in walk_records(data, batch.count):
        pass
    return (
        (key, base + offset_delta)
        for _, _, _, offset_delta, key, _ in walk_records(data, batch.count)
        if key is not None
    )


def filter_records(
    batch: RecordBatch, offsets: OffsetMap, *, over_ms: int, new_horizon_ms: int, sets_horizon: bool
) -> Verdict:
    """Filter `batch` by the offset map. Tombstones with a delete horizon at or before `over_ms` are removed. The batch
    gets `new_horizon_ms` if it keeps a tombstone and has no horizon yet, or with `sets_horizon`. Raises InvalidRecord,
    CompressionError."""
    data, horizon, is_control = _payload(batch), batch.delete_horizon_ms, batch.is_control
    keeps_tombstones = horizon is None or over_ms < horizon
    latest, last_of, base = offsets.latest_offset, offsets.get, batch.base_offset
    kept = bytearray()
    run_start = count = 0
    max_delta: int | None = None
    has_tombstones = False
    for start, end, timestamp_delta, offset_delta, key, has_value in walk_records(data, batch.count):
        offset = base + offset_delta
        if (
            is_control
            or offset > latest
            or (key is not None and (has_value or keeps_tombstones) and offset >= last_of(key))
        ):
            count += 1
            if not has_value:
                has_tombstones = True
            if max_delta is None or timestamp_delta > max_delta:
                max_delta = timestamp_delta
        else:
            kept += data[run_start:start]
            run_start = end
    if horizon is None and (has_tombstones or sets_horizon):
        horizon = new_horizon_ms
        shift = batch.base_timestamp - horizon
    elif count == batch.count or max_delta is None:
        return Verdict(count, batch)
    else:
        shift = 0
    if max_delta is None:
        return Verdict(0, batch)
    kept += data[run_start:]
    max_timestamp = (
        batch.max_timestamp
        if batch.timestamp_type == LOG_APPEND_TIME
        else min(max(batch.base_timestamp + max_delta, NO_TIMESTAMP), TIMESTAMP_MAX)
    )
    payload = shift_timestamps(bytes(kept), count, shift) if shift else kept
    return Verdict(count, RecordBatch(rebuild_batch(batch, payload, count, max_timestamp, horizon)))


def shift_timestamps(payload: bytes, count: int, shift: int) -> bytearray:
    """Return the records with `shift` ms added to each timestamp delta, for a base timestamp that was lowered by
    `shift`."""
    shifted = bytearray()
    for start, end, timestamp_delta, _, _, _ in walk_records(payload, count):
        body = read_varint(payload, start)[1]
        rest = read_varint(payload, body + 1)[1]
        delta = bytearray()
        append_varint(delta, timestamp_delta + shift)
        append_varint(shifted, 1 + len(delta) + end - rest)
        shifted += payload[body : body + 1]
        shifted += delta
        shifted += payload[rest:end]
    return shifted


def _payload(batch: RecordBatch) -> bytes:
    payload = batch.payload(decoded_bytes_max(batch.size))
    return payload if isinstance(payload, bytes) else bytes(payload)


def decoded_bytes_max(size: int) -> int:
    """Bytes to which a stored batch of `size` bytes may decompress."""
    return min(DECODED_BYTES_MAX, max(DECODED_FREELY_BYTES_MAX, DECODED_RATIO_MAX * size))
