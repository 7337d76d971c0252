"""Reads the keys of a batch's records without building them, for readers that keep the last record of each key:
compaction and the load of a coordinator.

It accepts and rejects the same payloads as `iterate_records`, the plain decoder. Usual records are read in a separate
loop, which may be machine code (`fast_path`); any other is passed to the plain decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from kraft.common.compiled import compiled
from kraft.protocol.records import fast_path as usual_records
from kraft.protocol.records.record import InvalidRecord, RecordCountMismatch, decode_record

WALKED_AT_ONCE = 256
"""The number of usual records that are in memory at a time."""
Walked: TypeAlias = tuple[int, int, int, int, bytes | None, bool]
"""Start and end of a record, its timestamp delta, offset delta, and key, and whether it has a value."""
WalkUsual: TypeAlias = Callable[[bytes, int, int, int], list[Walked]]
walk_usual: WalkUsual = compiled(usual_records).walk


def walk_records(data: bytes, count: int) -> Iterator[Walked]:
    """Yield, for each of the `count` records of a decompressed payload, the fields that compaction needs. Several times
    faster than `iterate_records`.

    Raises the same errors as `iterate_records` for the same payloads.
    """
    index = position = 0
    while index < count:
        stop = min(count, index + WALKED_AT_ONCE)
        usual = walk_usual(data, position, index, stop)
        if usual:
            yield from usual
            index, position = index + len(usual), usual[-1][1]
        if index < stop:
            other = _walk_other(data, position, index, count)
            yield other
            index, position = index + 1, other[1]
    if position != len(data):
        raise RecordCountMismatch(
            f"{len(data) - position} bytes are left after the {count} records that the batch header says"
        )


def _walk_other(data: bytes, position: int, index: int, count: int) -> Walked:
    if position == len(data):
        raise RecordCountMismatch(f"{index} records where the batch header says {count}")
    try:
        record, end = decode_record(data, position, 0, 0, None)
    except (IndexError, ValueError, InvalidRecord) as problem:
        raise InvalidRecord(f"record {index} of the batch: {problem}") from problem
    return position, end, record.timestamp, record.offset, record.key, record.value is not None
