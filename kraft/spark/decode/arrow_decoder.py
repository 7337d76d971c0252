"""Decode record batches into Arrow columns, without an object per record.

Only finding where each record starts is a loop, because a record's length gives the start of the next. Where records
are equally long, one comparison covers all of them. Everything else is done for all records of a fetch together.
Varints are decoded column by column. Arrow takes keys and values from one array that covers the whole buffer: key, gap,
value, gap, key, ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraft.protocol.records.compression import NONE
from kraft.protocol.records.record import InvalidRecord, RecordCountMismatch
from kraft.protocol.records.record_batch import HEADER_SIZE, LOG_APPEND_TIME, Buffer, RecordBatch
from kraft.protocol.records.varint import read_varint

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
RUN_MIN = 6
"""Consecutive equal lengths after which a longer run is searched for."""
VARINT_BYTES_MAX = 10
GROUP_BYTES = 32 << 20
"""Limit of the uncompressed bytes that are decoded together. A larger batch, at most 1 GiB, is decoded alone. Positions
in a buffer are 32-bit numbers."""


class Columns(NamedTuple):
    """Records of several batches, in order. `header_starts` is the position of each record's header count in `data`."""

    data: Bytes
    keys: pa.Array
    values: pa.Array
    offsets: Ints
    timestamps_ms: Ints
    timestamp_types: npt.NDArray[np.int32]
    header_counts: Ints
    header_starts: Ints


def decode(batches: Sequence[RecordBatch], start: int, end: int) -> Iterator[Columns]:
    """Yield the records with offsets in `[start, end)`. The caller must have checked the CRCs. Raises InvalidRecord,
    CompressionError."""
    for group, data, begins in flattened(batches):
        found = decode_group(group, data, begins, start, end)
        if found is not None:
            yield found


def decode_group(
    batches: Sequence[RecordBatch], data: Buffer, begins: list[tuple[int, int]], start: int, end: int
) -> Columns | None:
    records = np.concatenate(
        [record_starts(data, first, last, batch.count) for batch, (first, last) in zip(batches, begins, strict=True)]
    )
    if not len(records):
        return None
    view = np.frombuffer(data, np.uint8)
    try:
        return columns(view, records, batches, start, end)
    except IndexError as problem:
        raise InvalidRecord(
            f"a record of the batches from offset {batches[0].base_offset} runs past its end"
        ) from problem


def flattened(batches: Sequence[RecordBatch]) -> Iterator[tuple[Sequence[RecordBatch], Buffer, list[tuple[int, int]]]]:
    """Yield groups of batches, one buffer with all their records, and the start and end of each batch in it.
    Uncompressed batches form one group and are not copied. Compressed batches are decompressed in groups of about
    GROUP_BYTES, because a few megabytes of a response may expand to gigabytes."""
    if batches and all(batch.codec == NONE for batch in batches):
        yield (
            batches,
            batches[0].buffer,
            [(batch.position + HEADER_SIZE, batch.position + batch.size) for batch in batches],
        )
        return
    group: list[RecordBatch] = []
    payloads: list[bytes | memoryview] = []
    size = 0
    for batch in batches:
        payload = batch.payload()
        if group and size + len(payload) > GROUP_BYTES:
            yield group, *joined(payloads)
            group, payloads, size = [], [], 0
        group.append(batch)
        payloads.append(payload)
        size += len(payload)
    if group:
        yield group, *joined(payloads)


def joined(payloads: list[bytes | memoryview]) -> tuple[Buffer, list[tuple[int, int]]]:
    ends = np.cumsum([len(payload) for payload in payloads]).tolist()
    return b"".join(payloads), [(end - len(payload), end) for end, payload in zip(ends, payloads, strict=True)]


def record_starts(data: Buffer, position: int, end: int, count: int) -> Ints:
    """Return the start of each record's body (after its length) in `data[position:end]`. Raises RecordCountMismatch,
    InvalidRecord."""
    starts = np.empty(count, np.int64)
    view = np.frombuffer(data, np.uint8)
    index, before, run = 0, -1, 0
    while index < count:
        if position >= end:
            raise RecordCountMismatch(f"{index} records, but the batch header has {count}")
        byte = data[position]
        if byte < 128:
            body, length = position + 1, byte >> 1
        elif position + 1 < end and data[position + 1] < 128:
            body, length = position + 2, (byte & 127 | data[position + 1] << 7) >> 1
        else:
            try:
                length, body = read_varint(data, position)
            except (IndexError, ValueError) as problem:
                raise InvalidRecord(f"the length of record {index}: {problem}") from problem
        if length < 0 or body + length > end:
            raise InvalidRecord(f"a record of {length} bytes, but only {end - body} are left")
        starts[index] = body
        index += 1
        run = run + 1 if body + length - position == before else 0
        before = body + length - position
        if run >= RUN_MIN and index < count:
            alike = equal_run(
                view, position, body - position, before, min(count - index, (end - position) // before - 1)
            )
            starts[index : index + alike] = body + before * np.arange(1, alike + 1)
            index += alike
            position += before * alike
            run = 0
        position += before
    if position != end:
        raise RecordCountMismatch(f"{end - position} bytes follow the {count} records of the batch header")
    return starts


def equal_run(view: Bytes, position: int, head: int, stride: int, most: int) -> int:
    """Count the records, at most `most`, that follow the record at `position` with the same length. `head` is the size
    of the length field in bytes."""
    if most <= 0:
        return 0
    same = np.ones(most, bool)
    for offset in range(head):
        same &= (
            view[position + stride + offset : position + stride * most + offset + 1 : stride] == view[position + offset]
        )
    return most if same.all() else int(np.argmin(same))


def columns(view: Bytes, at: Ints, batches: Sequence[RecordBatch], start: int, end: int) -> Columns | None:
    """Decode the records whose bodies start at `at`; None if none is in the range."""
    counts = np.fromiter((batch.count for batch in batches), np.int64, len(batches))
    at = at + 1  # one byte of attributes, unused
    time_deltas, at = varints(view, at)
    offset_deltas, at = varints(view, at)
    offsets = (
        np.repeat(np.fromiter((batch.base_offset for batch in batches), np.int64, len(batches)), counts) + offset_deltas
    )
    first, last = np.searchsorted(offsets, (start, end))
    if first >= last:
        return None
    part = slice(int(first), int(last))
    timestamps, kinds = times(batches, counts, time_deltas)
    key_lengths, key_starts = varints(view, at[part])
    key_ends = key_starts + np.maximum(key_lengths, 0)
    value_lengths, value_starts = varints(view, key_ends)
    value_ends = value_starts + np.maximum(value_lengths, 0)
    header_counts, header_starts = varints(view, value_ends)
    if key_lengths.min() < -1 or value_lengths.min() < -1:
        raise InvalidRecord("a key or value of negative length")
    keys, values = fields(
        view, np.stack((key_starts, key_ends, value_starts, value_ends), axis=1), key_lengths < 0, value_lengths < 0
    )
    return Columns(view, keys, values, offsets[part], timestamps[part], kinds[part], header_counts, header_starts)


def times(batches: Sequence[RecordBatch], counts: Ints, deltas: Ints) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Return the timestamp (ms) and the timestamp type of each record."""
    appended = np.fromiter((batch.timestamp_type == LOG_APPEND_TIME for batch in batches), bool, len(batches))
    bases = np.fromiter(
        (batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else batch.base_timestamp for batch in batches),
        np.int64,
        len(batches),
    )
    by_record = np.repeat(appended, counts)
    return np.repeat(bases, counts) + np.where(by_record, 0, deltas), by_record.astype(np.int32)


def fields(
    view: Bytes, bounds: Ints, null_keys: npt.NDArray[np.bool_], null_values: npt.NDArray[np.bool_]
) -> tuple[pa.Array, pa.Array]:
    """Return keys and values, copied out of the buffer. `bounds` is (key start, key end, value start, value end) of
    each record."""
    ends = np.empty(bounds.size, np.int32)
    ends[:] = bounds.reshape(-1)
    if (np.diff(ends) < 0).any() or ends[-1] > len(view):
        raise InvalidRecord("keys and values overlap")
    count = len(bounds)
    every = pa.BinaryArray.from_buffers(pa.binary(), 4 * count - 1, [None, pa.py_buffer(ends), pa.py_buffer(view)])
    places = np.arange(0, 4 * count, 4, dtype=np.int32)
    keys = pc.take(every, pa.array(places, mask=null_keys if null_keys.any() else None))
    return keys, pc.take(every, pa.array(places + 2, mask=null_values if null_values.any() else None))


def varints(view: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Decode the zig-zag varint at each position; return the values and the positions after them. Raises InvalidRecord,
    IndexError."""
    byte = view[at]
    value = (byte & 127).astype(np.uint64)
    behind = at + 1
    more = np.flatnonzero(byte > 127)
    shift = 7
    while len(more):
        if shift >= 7 * VARINT_BYTES_MAX:
            raise InvalidRecord("a varint of more than ten bytes")
        byte = view[behind[more]]
        value[more] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        behind[more] += 1
        more = more[byte > 127]
        shift += 7
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64), behind
