"""Judge the records of a batch without building them: what a leader must know before it appends them.

A judge accepts and refuses what `iterate_records`, the plain decoder, accepts and refuses, and costs an eighth of it:
0.5 us a record. It is pure Python; docs/adr/0014 has the figures of the alternatives. Numbers are compared as they
stand there, zig-zag encoded, and those of one and two bytes are read in place: a call costs as much as a record.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from kraft.protocol.records.record import InvalidRecord, RecordCountMismatch
from kraft.protocol.records.varint import read_varint

JUDGED_A_SLICE = 4000
"""Records, or headers, between two pauses of a judge: about three milliseconds."""
NUMBER_END = 1 << 80
"""More than any varint can hold."""


class JudgedRecords(NamedTuple):
    """What holds for the records of one batch."""

    have_keys: bool
    """Whether every record has a key."""
    are_consecutive: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""
    timestamp_delta_min: int
    timestamp_delta_max: int


def judge_records(payload: bytes | memoryview, count: int) -> Generator[None, None, JudgedRecords]:
    """Look at every byte that is not content of the `count` records of a decompressed payload, and pause after
    JUDGED_A_SLICE of them. There must be at least one.

    Raises InvalidRecord where a record is garbage, RecordCountMismatch when the bytes end early or some are left.
    """
    data = payload if isinstance(payload, bytes) else bytes(payload)
    size, left, position, start, expected = len(data), JUDGED_A_SLICE, 0, 0, 0
    have_keys = are_consecutive = True
    timestamp, delta_min, delta_max = -1, NUMBER_END, -NUMBER_END
    try:
        for expected in range(0, 2 * count, 2):  # The offset delta of each record, as a varint has it.
            start = position
            byte, position = data[position], position + 1
            if byte >= 0x80 and (byte := byte + (data[position] << 7) - 0x80) < 0x4000:
                position += 1
            elif byte >= 0x80:
                byte, position = _read_long(data, position - 1)
            end = position + (byte >> 1)
            if byte & 1 or end > size:
                raise InvalidRecord(f"its length does not fit in the {size - position} bytes left")
            byte, position = data[position + 1], position + 2  # Behind a byte of attributes, unused.
            if byte >= 0x80 and (byte := byte + (data[position] << 7) - 0x80) < 0x4000:
                position += 1
            elif byte >= 0x80:
                byte, position = _read_long(data, position - 1)
            if byte != timestamp:
                timestamp, delta = byte, (byte >> 1) ^ -(byte & 1)
                delta_min = delta if delta < delta_min else delta_min  # A call takes twice the time.
                delta_max = delta if delta > delta_max else delta_max
            byte, position = data[position], position + 1
            if byte >= 0x80 and (byte := byte + (data[position] << 7) - 0x80) < 0x4000:
                position += 1
            elif byte >= 0x80:
                byte, position = _read_long(data, position - 1)
            are_consecutive = are_consecutive and byte == expected
            byte, position = data[position], position + 1
            if byte >= 0x80 and (byte := byte + (data[position] << 7) - 0x80) < 0x4000:
                position += 1
            elif byte >= 0x80:
                byte, position = _read_long(data, position - 1)
            if byte & 1:
                have_keys, byte = False, 0
            position += byte >> 1
            byte, position = data[position], position + 1
            if byte >= 0x80 and (byte := byte + (data[position] << 7) - 0x80) < 0x4000:
                position += 1
            elif byte >= 0x80:
                byte, position = _read_long(data, position - 1)
            position += 0 if byte & 1 else byte >> 1
            if data[position]:
                position, left = yield from _skip_headers(data, position, end, left)
                position -= 1
            if position + 1 != end:  # A field that is too long shows here too: positions only grow.
                raise InvalidRecord(f"it says it ends at {end} and ends at {position + 1}")
            position, left = end, left - 1
            if left <= 0:
                yield
                left = JUDGED_A_SLICE
    except (IndexError, ValueError, InvalidRecord) as problem:
        raise _refusal(expected >> 1, count, problem if start < size else None) from problem
    if position != size:
        raise RecordCountMismatch(f"{size - position} bytes are left after the {count} records of the batch header")
    return JudgedRecords(have_keys, are_consecutive, delta_min, delta_max)


def _refusal(index: int, count: int, problem: Exception | None) -> InvalidRecord:
    """`problem` is that of record `index`; None: the bytes end before it."""
    if problem is None:
        return RecordCountMismatch(f"{index} records where the batch header says {count}")
    return InvalidRecord(f"record {index} of the batch: {problem}")


def _read_long(data: bytes, position: int) -> tuple[int, int]:
    """The varint of any length at `position` as it stands there, not decoded, and the position behind it."""
    value, position = read_varint(data, position)
    return value << 1 if value >= 0 else (-value << 1) - 1, position


def _skip_headers(data: bytes, position: int, end: int, left: int) -> Generator[None, None, tuple[int, int]]:
    """The position behind the headers whose count is at `position`, and what is left of the slice. Raises
    InvalidRecord, IndexError, ValueError."""
    count, position = read_varint(data, position)
    if count < 0 or count > end - position:
        raise InvalidRecord(f"{count} headers in {end - position} bytes")
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise InvalidRecord("a header without a key")
        length, position = read_varint(data, position + length)
        position += length if length > 0 else 0
        left -= 1
        if left <= 0:
            yield
            left = JUDGED_A_SLICE
    return position, left
