"""Reading a segment whose end may be torn: every batch is checked whole, the indexes are made anew, and the file is
cut at the first bad byte.

A segment of a gigabyte takes from a fifth of a second to ten, by the size of its batches, and longer where the disk
has to be waited for. So it is read in steps, and what the page cache lacks is read ahead by a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kraft.protocol.records.record_batch import HEADER_SIZE, CorruptBatch, RecordBatch
from kraft.storage.batch_walk import read_batch
from kraft.storage.file_cache import OpenFile
from kraft.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment
from kraft.storage.steps import Steps
from kraft.world.ports import File

BATCHES_PER_STEP: Final = 32
BYTES_PER_STEP: Final = 1 << 19
AHEAD_BYTES: Final = 4 << 20
"""Read by the thread at a time. What is shorter than a quarter of it is not worth a thread."""
READ_BYTES: Final = 1 << 17


def recover_segment(
    segment: LogSegment, index_interval_bytes: int, on_batch: Callable[[RecordBatch], None]
) -> Steps[str | None]:
    """`on_batch` sees each good batch. Returns why the file was cut; None when all of it was good. Raises OSError."""
    opened = segment.begin_recovery()
    file = opened.file
    end = file.size()
    ahead = batches = read = 0
    reason = None
    while segment.size < end:
        if segment.size >= ahead:
            ahead = min(end, segment.size + AHEAD_BYTES)
            if ahead - segment.size >= AHEAD_BYTES // 4 and not file.resident(segment.size, ahead - segment.size):
                yield partial(_read_ahead, opened, segment.size, ahead)
        try:
            batch = _read_checked(segment, file, end)
        except CorruptBatch as problem:
            reason = str(problem)
            break
        segment.appended(batch.size, batch.last_offset, batch.max_timestamp, index_interval_bytes)
        on_batch(batch)
        batches += 1
        read += batch.size
        if batches >= BATCHES_PER_STEP or read >= BYTES_PER_STEP:
            batches = read = 0
            yield None
    if reason is not None:
        file.truncate(segment.size)
        yield file.sync  # What is cut must not come back behind new batches.
    return reason


def _read_ahead(opened: OpenFile, position: int, end: int) -> None:
    for start in range(position, end, READ_BYTES):
        opened.file.pread(min(READ_BYTES, end - start), start)


def _read_checked(segment: LogSegment, file: File, end: int) -> RecordBatch:
    position = segment.size
    size = RecordBatch(file.pread(min(HEADER_SIZE, end - position), position)).size
    if size < HEADER_SIZE or position + size > end:
        raise CorruptBatch(f"a batch of {size} bytes where the file has {end - position} left")
    batch = read_batch(file, position, size)
    batch.verify_crc()
    if (
        batch.base_offset < segment.base_offset
        or batch.last_offset_delta < 0
        or batch.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
    ):
        raise CorruptBatch(f"offsets {batch.base_offset}..{batch.last_offset} in the segment at {segment.base_offset}")
    return batch
