"""The batches that a share group's fetch reads: no more than contain the wanted number of records.

A member acquires a limited number of records. So reading stops as soon as the headers of the batches show enough
available records. Records that are acquired or settled do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kraft.protocol.records.aborted import marked_aborted
from kraft.protocol.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, RecordBatch, batches
from kraft.storage.log_reader import FetchData

CHUNK_BYTES: Final = 64 << 10
"""Size of one read of a file. A larger batch needs a second read."""


Count = Callable[[int, int], int]
"""Returns how many of the records from a first to a last offset count for the limit."""


def _each(first: int, last: int) -> int:
    return last + 1 - first


def read_batches(data: FetchData, records_max: int, count: Count = _each) -> list[RecordBatch]:
    """Return whole batches of `data` in order, until `records_max` of their offsets count. An incomplete last one is
    left out. Raises OSError, CorruptBatch."""
    found: list[RecordBatch] = []
    left = records_max
    for part in data.slices:
        position, end = part.position, part.position + part.size
        while position < end and left > 0:
            chunk = part.file.pread(min(CHUNK_BYTES, end - position), position)
            size = _first_size(chunk)
            if len(chunk) < size <= end - position:
                chunk = part.file.pread(size, position)
            read = 0
            for batch in batches(chunk, partial_tail=True):
                found.append(batch)
                read += batch.size
                left -= count(batch.base_offset, batch.last_offset)
                if left <= 0:
                    return found
            if not read:
                return found
            position += read
    return found


def batches_in_memory(records: bytes, records_max: int, count: Count = _each) -> list[RecordBatch]:
    """Return whole batches as `read_batches` does, of records that are in memory."""
    found: list[RecordBatch] = []
    left = records_max
    for batch in batches(records, partial_tail=True):
        found.append(batch)
        left -= count(batch.base_offset, batch.last_offset)
        if left <= 0:
            break
    return found


def aborted_ranges(found: Sequence[RecordBatch], aborted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the first and last offset of each batch of an aborted transaction, ascending. `aborted` has the producer
    id and the first offset of each such transaction."""
    return [
        (batch.base_offset, batch.last_offset) for batch, is_aborted in marked_aborted(found, aborted) if is_aborted
    ]


def bytes_between(found: Sequence[RecordBatch], first: int, last: int) -> bytes:
    """Return the bytes of the batches that have an offset from `first` to `last` (inclusive)."""
    return b"".join(batch.view for batch in found if batch.last_offset >= first and batch.base_offset <= last)


def _first_size(chunk: bytes) -> int:
    """The size in bytes of the batch that begins the chunk; a whole header is read at least."""
    if len(chunk) < LOG_OVERHEAD:
        return HEADER_SIZE
    return LOG_OVERHEAD + int.from_bytes(chunk[8:12], "big", signed=True)
