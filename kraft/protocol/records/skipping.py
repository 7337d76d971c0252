"""Skip records of a batch that a reader does not need, without building them."""

from __future__ import annotations

from collections.abc import Iterator

from kraft.protocol.records.record import InvalidRecord, RecordCountMismatch
from kraft.protocol.records.varint import read_varint

Place = tuple[int, int, int, int]
"""Index of a record in its batch, position of its first byte, timestamp delta, offset delta."""


def places_of(data: bytes, count: int, first: int = 0, position: int = 0) -> Iterator[Place]:
    """Yield index, position, timestamp delta and offset delta of a decompressed payload's `count` records, from record
    `first` at `position` on. `iterate_records` can start at any of them.

    Only lengths, timestamps and offsets are read, so a record that is invalid after these fields is not noticed. Raises
    InvalidRecord and RecordCountMismatch for errors in these fields.
    """
    size = len(data)
    for index in range(first, count):
        if position == size:
            raise RecordCountMismatch(f"{index} records where the batch header says {count}")
        start = position
        try:
            # Varints of one and two bytes are read here: a call costs as much as the rest of the record.
            byte = data[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            elif (high := data[position + 1]) < 0x80:
                length, position = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1), position + 2
            else:
                length, position = read_varint(data, position)
            end = position + length
            if length < 0 or end > size:
                raise InvalidRecord(f"a record of {length} bytes where {size - position} are left")
            position += 1  # One byte of attributes, unused.
            byte = data[position]
            if byte < 0x80:
                timestamp_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                timestamp_delta, position = read_varint(data, position)
            byte = data[position]
            if byte < 0x80:
                offset_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
            elif (high := data[position + 1]) < 0x80:
                offset_delta, position = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1), position + 2
            else:
                offset_delta, position = read_varint(data, position)
        except (IndexError, ValueError) as problem:
            raise InvalidRecord(f"record {index} of the batch: {problem}") from problem
        yield index, start, timestamp_delta, offset_delta
        position = end


def first_from(data: bytes, count: int, offset_delta: int) -> tuple[int, int]:
    """Return index and position of the first record at `offset_delta` or later; the end if there is none.

    Offset deltas ascend. If no record before it is missing, its index is its offset delta, and only the lengths before
    it are read. Raises the errors of `places_of`.
    """
    if 0 < offset_delta < count:
        position = _after(data, offset_delta)
        if next(places_of(data, count, offset_delta, position))[3] == offset_delta:
            return offset_delta, position
    for index, position, _, found in places_of(data, count):
        if found >= offset_delta:
            return index, position
    return count, len(data)


def _after(data: bytes, count: int) -> int:
    """Return the position after the first `count` records. Raises InvalidRecord for an invalid length."""
    position = 0
    try:
        for _ in range(count):
            length = data[position]  # Zig-zag: twice the length, odd where it is negative.
            if length < 0x80:
                position += 1 + (length >> 1)
            elif (high := data[position + 1]) < 0x80:
                length += (high << 7) - 0x80
                position += 2 + (length >> 1)
            else:
                length, position = read_varint(data, position)
                position += length
                length <<= 1
            if length & 1 or length < 0:
                raise InvalidRecord("a record has a negative length")
    except (IndexError, ValueError) as problem:
        raise InvalidRecord(f"the length of a record cannot be read: {problem}") from problem
    if position > len(data):
        raise InvalidRecord(f"the first {count} records end {position - len(data)} bytes too late")
    return position
