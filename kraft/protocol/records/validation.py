"""Checks the records of a batch without building them: what a leader must know before it appends them.

It accepts and rejects the same payloads as `iterate_records`, the plain decoder. Usual records are checked in a
separate loop, which may be machine code (`fast_path`); here are slices, the other records, and errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from kraft.common.compiled import compiled
from kraft.protocol.records import fast_path as usual_records
from kraft.protocol.records.record import InvalidRecord, RecordCountMismatch
from kraft.protocol.records.varint import read_varint
from kraft.world.steps import Steps

JUDGED_A_SLICE = 4000
"""Usual records that are checked between two pauses: about two milliseconds if the code is interpreted."""
OTHER_RECORD_COST = 8
"""The cost of a record that is not usual, in usual records or headers."""
NUMBER_END = 1 << 80
"""A value above that of any varint."""
JudgeUsual: TypeAlias = Callable[[bytes, int, int, int], tuple[int, int, bool, bool, int, int]]
judge_usual: JudgeUsual = compiled(usual_records).judge
READ_BY: Final = "interpreter" if judge_usual is usual_records.judge else "machine code"
"""How usual records are read in this process: by machine code or by the interpreter."""


class JudgedRecords(NamedTuple):
    """Properties of the records of one batch."""

    have_keys: bool
    """Whether every record has a key."""
    are_consecutive: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""
    timestamp_delta_min: int
    timestamp_delta_max: int


def judge_records(payload: bytes | memoryview, count: int) -> Steps[JudgedRecords]:
    """Check every byte of the `count` records of a decompressed payload except their content, yielding after
    JUDGED_A_SLICE of them. There must be at least one.

    Raises InvalidRecord for an invalid record, RecordCountMismatch if the bytes end early or some are left.
    """
    data = payload if isinstance(payload, bytes) else bytes(payload)
    index, position, left = 0, 0, JUDGED_A_SLICE
    have_keys = are_consecutive = True
    delta_min, delta_max = NUMBER_END, -NUMBER_END
    while index < count:
        if left <= 0:
            yield None
            left = JUDGED_A_SLICE
        first, stop = index, min(count, index + left)
        index, position, keys, consecutive, least, most = judge_usual(data, position, first, stop)
        have_keys, are_consecutive = have_keys and keys, are_consecutive and consecutive
        if index > first:
            left -= index - first
            delta_min, delta_max = min(delta_min, least), max(delta_max, most)
        if index < stop:
            try:
                other, left = yield from _judge_other(data, position, left)
            except (IndexError, ValueError, InvalidRecord) as problem:
                raise _refusal(index, count, problem if position < len(data) else None) from problem
            have_keys, are_consecutive = have_keys and other.has_key, are_consecutive and other.offset_delta == index
            delta_min, delta_max = min(delta_min, other.timestamp_delta), max(delta_max, other.timestamp_delta)
            index, position = index + 1, other.end
    if position != len(data):
        raise RecordCountMismatch(
            f"{len(data) - position} bytes are left after the {count} records of the batch header"
        )
    return JudgedRecords(have_keys, are_consecutive, delta_min, delta_max)


class _Other(NamedTuple):
    """The properties of a record that the fast path does not support."""

    end: int
    timestamp_delta: int
    offset_delta: int
    has_key: bool


def _judge_other(data: bytes, position: int, left: int) -> Steps[tuple[_Other, int]]:
    """Check the record at `position`. Returns its properties and the rest of the slice. Raises InvalidRecord,
    IndexError, ValueError."""
    length, position = read_varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise InvalidRecord(f"its length {length} does not fit in the {len(data) - position} bytes left")
    timestamp_delta, position = read_varint(data, position + 1)  # Behind a byte of attributes, unused.
    offset_delta, position = read_varint(data, position)
    key_length, position = read_varint(data, position)
    value_length, position = read_varint(data, position + max(0, key_length))
    position += max(0, value_length)
    left -= OTHER_RECORD_COST
    position, left = yield from _skip_headers(data, position, end, left)
    if position != end:  # A field that is too long shows here too: positions only grow.
        raise InvalidRecord(f"it says it ends at {end} and ends at {position}")
    return _Other(end, timestamp_delta, offset_delta, key_length >= 0), left


def _refusal(index: int, count: int, problem: Exception | None) -> InvalidRecord:
    """Return the error for `problem` of record `index`. None means that the bytes end before the record does."""
    if problem is None:
        return RecordCountMismatch(f"{index} records where the batch header says {count}")
    return InvalidRecord(f"record {index} of the batch: {problem}")


def _skip_headers(data: bytes, position: int, end: int, left: int) -> Steps[tuple[int, int]]:
    """Return the position after the headers whose count is at `position`, and the rest of the slice. Raises
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
            yield None
            left = JUDGED_A_SLICE
    return position, left
