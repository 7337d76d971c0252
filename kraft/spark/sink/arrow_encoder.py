"""Encode Arrow columns as record batches, without an object per record.

A record is a head (varints), the key, a varint, the value and the headers. Varints are built column by column, and
Arrow joins the pieces of all records in one operation. The bytes equal those of `batch_encoder.encode_batch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraft.protocol.records.compression import NONE, compress
from kraft.rpc_client.partitioner import MULTIPLIER, SEED
from kraft.spark.sink.batch_encoder import ROW_OVERHEAD_BYTES, framed

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
BINARY = pa.large_binary()
"""The type of all bytes columns here: joined, they may exceed 2 GiB."""
EMPTY = pa.scalar(b"", BINARY)
NO_HEADERS = pa.scalar(b"\0", BINARY)


class Rows(NamedTuple):
    """Records to write, by column. `headers` are encoded with their count in front; None if no record has headers."""

    timestamps_ms: Ints
    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None

    @property
    def records(self) -> int:
        return len(self.timestamps_ms)

    def take(self, places: Ints) -> Rows:
        return Rows(
            self.timestamps_ms[places],
            *(None if column is None else pc.take(column, pa.array(places)) for column in self[1:]),
        )

    def part(self, begin: int, end: int) -> Rows:
        """Return the records `[begin, end)` as a view, not a copy."""
        return Rows(
            self.timestamps_ms[begin:end],
            *(None if column is None else column.slice(begin, end - begin) for column in self[1:]),
        )

    def sizes(self) -> Ints:
        """Return the approximate encoded size of each record in bytes."""
        found = np.maximum(lengths(self.keys), 0) + np.maximum(lengths(self.values), 0) + ROW_OVERHEAD_BYTES
        return found if self.headers is None else found + lengths(self.headers)


def joined(parts: Sequence[Rows]) -> Rows:
    """Concatenate all parts in order. There is at least one."""
    if len(parts) == 1:
        return parts[0]
    headers = None
    if any(part.headers is not None for part in parts):
        headers = pa.concat_arrays(
            [pa.repeat(NO_HEADERS, part.records) if part.headers is None else part.headers for part in parts]
        )
    return Rows(
        np.concatenate([part.timestamps_ms for part in parts]),
        pa.concat_arrays([part.keys for part in parts]),
        pa.concat_arrays([part.values for part in parts]),
        headers,
    )


def binary(column: pa.Array) -> pa.Array:
    """Convert a column of strings or bytes to bytes."""
    return column.cast(pa.large_string()).cast(BINARY) if pa.types.is_string(column.type) else column.cast(BINARY)


def offsets_of(column: pa.Array) -> Ints:
    """Return the start of each value in the data of a bytes column, and the end of the last one."""
    return np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, column.offset * 8)


def lengths(column: pa.Array) -> Ints:
    """Return the lengths of the values in bytes; -1 for null."""
    found: Ints = np.diff(offsets_of(column)) if len(column) else np.zeros(0, np.int64)
    return np.where(nulls(column), -1, found) if column.null_count else found


def nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found


def encode_headers(column: pa.Array) -> pa.Array | None:
    """Encode the headers of each record, with their count in front, from a column of lists of key and value. None if
    all lists are null or empty. Raises ValueError for a header without a key."""
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not counts.any():
        return None
    flat = column.flatten()
    names, values = (binary(pc.struct_field(flat, index)) for index in (0, 1))
    if flat.null_count or names.null_count:
        raise ValueError("a row has a header without a key")
    each = join(varint_pieces([lengths(names)]), names, varint_pieces([lengths(values)]), values)
    ends = offsets_of(each)[np.concatenate(([0], np.cumsum(counts)))]
    whole = pa.Array.from_buffers(BINARY, len(column), [None, pa.py_buffer(ends), each.buffers()[2]])
    return join(varint_pieces([counts]), whole)


def encode(rows: Rows, codec: int, producer_id: int, epoch: int, base_sequence: int) -> bytes:
    """Encode all `rows` (at least one) as one batch. Offsets start at 0."""
    first, count = int(rows.timestamps_ms[0]), rows.records
    keys, values = lengths(rows.keys), lengths(rows.values)
    columns = [np.zeros(count, np.int64), rows.timestamps_ms - first, np.arange(count), keys]
    tail = NO_HEADERS if rows.headers is None else rows.headers
    size = np.ones(count, np.int64) if rows.headers is None else lengths(rows.headers)
    size = size + np.maximum(keys, 0) + np.maximum(values, 0)
    for column in (*columns, values):
        size = size + varint_sizes(column)
    if rows.keys.null_count == count:
        payload = join(varint_pieces([size, *columns, values]), rows.values, tail)
    else:
        payload = join(varint_pieces([size, *columns]), rows.keys, varint_pieces([values]), rows.values, tail)
    ends = offsets_of(payload)
    records = memoryview(payload.buffers()[2])[int(ends[0]) : int(ends[-1])]
    return framed(
        [records if codec == NONE else compress(codec, records)],
        (codec, count - 1, first, int(rows.timestamps_ms.max()), producer_id, epoch, base_sequence, count),
    )


def join(*pieces: pa.Array | pa.Scalar) -> pa.Array:
    """Join the columns value by value; null counts as empty."""
    return pc.binary_join_element_wise(*pieces, EMPTY, null_handling="replace", null_replacement=b"")


def zigzag(values: Ints) -> npt.NDArray[np.uint64]:
    return (values << 1 ^ values >> 63).view(np.uint64)


def varint_sizes(values: Ints) -> Ints:
    """Return the size of each value's varint in bytes."""
    code = zigzag(values)
    most, sizes, shift = int(code.max()), np.ones(len(values), np.int64), 7
    while most >> shift:
        sizes += code >> np.uint64(shift) > 0
        shift += 7
    return sizes


def varint_pieces(columns: Sequence[Ints]) -> pa.Array:
    """Return the concatenated varints of each row. All columns have the same length, and are not empty."""
    parts: list[npt.NDArray[np.uint8]] = []
    kept: list[npt.NDArray[np.bool_]] = []
    for values in columns:
        code = zigzag(values)
        most, shift = int(code.max()), 0
        has = np.ones(len(values), bool)
        while True:
            low: npt.NDArray[np.uint8] = (code >> np.uint64(shift)).astype(np.uint8) & np.uint8(127)
            shift += 7
            parts.append(low)
            kept.append(has)
            if not most >> shift:
                break
            has = code >> np.uint64(shift) > 0
            low |= has.astype(np.uint8) << np.uint8(7)
    count = len(columns[0])
    block = np.stack(parts, axis=1)
    if all(has.all() for has in kept):
        data, ends = block.reshape(-1), np.arange(count + 1) * len(parts)
    else:
        keep = np.empty(block.shape, bool)
        for index, has in enumerate(kept):
            keep[:, index] = has
        data, ends = block[keep], np.concatenate(([0], np.cumsum(keep.sum(axis=1))))
    return pa.Array.from_buffers(BINARY, count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def partitions_of(keys: pa.Array, partitions: int) -> Ints:
    """Return the partition of each key, as `kraft.rpc_client.partitioner.partition_for_key` does. The result for a null
    key is meaningless."""
    return (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def murmur2(keys: pa.Array) -> Words:
    """Hash all keys together, word by word. Arithmetic is modulo 2^32, as uint32 wraps."""
    if not len(keys):
        return np.zeros(0, np.uint32)
    starts, sizes, times = offsets_of(keys)[:-1], np.maximum(lengths(keys), 0), np.uint32(MULTIPLIER)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    value = np.uint32(SEED) ^ sizes.astype(np.uint32)
    least, whole = int(sizes.min()) // 4, sizes // 4
    every = np.ndarray(max(0, len(data) - 3), "<u4", data, strides=(1,))  # The word at each byte.
    for index in range(int(whole.max())):
        at: npt.NDArray[np.intp] | slice = slice(None) if index < least else np.flatnonzero(whole > index)
        word = every[starts[at] + 4 * index] * times
        value[at] = value[at] * times ^ (word ^ word >> np.uint32(24)) * times
    rest = np.zeros(len(keys), np.uint32)
    for index in range(3):
        some = np.flatnonzero(sizes % 4 > index)
        rest[some] |= data[starts[some] + 4 * whole[some] + index].astype(np.uint32) << np.uint32(8 * index)
    value = np.where(sizes % 4 > 0, (value ^ rest) * times, value)
    value = (value ^ value >> np.uint32(13)) * times
    return value ^ value >> np.uint32(15)
