"""Reads a segment whose end may be torn. Every batch is checked completely, and the indexes are rebuilt.

If the valid batches end before the file does, the rest is a torn tail or damage (`stored_batches`). The file is
truncated at a torn tail. Damage is left in place for `damaged_log`.

A segment of a gigabyte takes from a fifth of a second to ten seconds, depending on the size of its batches, and longer
on a slow disk. So it is read in steps, and a thread reads ahead what is not in the page cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from kraft.protocol.records.record_batch import HEADER_SIZE, CorruptBatch, RecordBatch
from kraft.storage.batch_walk import walk_headers
from kraft.storage.file_cache import OpenFile
from kraft.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment
from kraft.storage.recovery.stored_batches import damage_before, is_written
from kraft.world.ports import File
from kraft.world.steps import Steps

BATCHES_PER_STEP: Final = 32
BYTES_PER_STEP: Final = 1 << 19
AHEAD_BYTES: Final = 4 << 20
"""Bytes that the thread reads at a time. Files below a quarter of it are read without a thread."""
READ_BYTES: Final = 1 << 17


class BadBatch(NamedTuple):
    """The reason why the valid batches end before the file does: a torn tail or damage. `known_end_offset` is None for
    a torn tail. For damage it is the end (exclusive) of the whole batches that follow in the file."""

    reason: str
    known_end_offset: int | None
    known_epoch: int = -1
    """The leader epoch of the last batch behind the damage."""


def recover_segment(
    segment: LogSegment,
    index_interval_bytes: int,
    on_batch: Callable[[RecordBatch], None],
    next_base_offset: int | None,
    durable_end: int,
) -> Steps[BadBatch | None]:
    """Read a segment and pass each valid batch to `on_batch`. Returns what ended the valid part; None if the whole file
    is valid.

    `next_base_offset` is the base offset of the next segment with records, or None. Bytes below `durable_end` were
    synced, so a crash does not explain damage there. Raises OSError.
    """
    opened = segment.begin_recovery()
    file = opened.file
    end = file.size()
    ahead = batches = read = 0
    bad = None
    next_offset = segment.base_offset
    reading = _Reading(segment, file, end)
    while segment.size < end:
        if segment.size >= ahead:
            ahead = min(end, segment.size + AHEAD_BYTES)
            if ahead - segment.size >= AHEAD_BYTES // 4 and not file.resident(segment.size, ahead - segment.size):
                yield partial(_read_ahead, opened, segment.size, ahead)
        try:
            batch = reading.batch_at(segment.size)
        except CorruptBatch as problem:
            known_end, epoch = _what_follows(file, segment.size, end, next_offset, next_base_offset)
            if known_end is None and next_offset < durable_end:
                known_end = durable_end
            bad = BadBatch(str(problem), known_end, epoch)
            break
        segment.appended(batch.size, batch.base_offset, batch.last_offset, batch.max_timestamp, index_interval_bytes)
        next_offset = batch.next_offset
        on_batch(batch)
        batches += 1
        read += batch.size
        if batches >= BATCHES_PER_STEP or read >= BYTES_PER_STEP:
            batches = read = 0
            yield None
    if bad is not None and bad.known_end_offset is None:
        file.truncate(segment.size)
        yield file.sync  # What is truncated must not come back behind new batches.
    return bad


def _what_follows(
    file: File, position: int, end: int, next_offset: int, next_base_offset: int | None
) -> tuple[int | None, int]:
    """(end offset, leader epoch) of the whole batches behind damage at `position`. The end is None if a crash explains
    the bytes."""
    found = damage_before(file, position, end, next_offset)
    if found is not None:
        known_end, epoch = next_offset, -1
        for _, batch in walk_headers(file, found[0], end):
            if batch.base_offset < known_end or batch.last_offset_delta < 0:
                break
            known_end, epoch = batch.next_offset, batch.partition_leader_epoch
        return known_end, epoch
    if next_base_offset is None or not is_written(file, position, end, next_offset):
        return None, -1
    header = RecordBatch(file.pread(HEADER_SIZE, position)) if end - position >= HEADER_SIZE else None
    # The last batch of a segment that others follow: nothing of it is missing, and yet it is wrong.
    is_whole = header is not None and position + header.size == end
    return (next_base_offset if is_whole else None), -1


def _read_ahead(opened: OpenFile, position: int, end: int) -> None:
    for start in range(position, end, READ_BYTES):
        opened.file.pread(min(READ_BYTES, end - start), start)


class _Reading:
    """Reads consecutive batches in large chunks."""

    __slots__ = ("_chunk", "_end", "_file", "_segment", "_start")

    def __init__(self, segment: LogSegment, file: File, end: int) -> None:
        self._segment = segment
        self._file = file
        self._end = end
        self._chunk = b""
        self._start = 0

    def batch_at(self, position: int) -> RecordBatch:
        """Return the batch at `position` after checking it. Raises CorruptBatch, OSError."""
        base_offset = self._segment.base_offset
        if position + HEADER_SIZE > self._start + len(self._chunk):
            self._read(position, READ_BYTES)
        batch = RecordBatch(self._chunk, position - self._start)
        size = batch.size
        if size < HEADER_SIZE or position + size > self._end:
            raise CorruptBatch(f"a batch of {size} bytes, but the file has {self._end - position} left")
        if position + size > self._start + len(self._chunk):
            self._read(position, max(size, READ_BYTES))
            batch = RecordBatch(self._chunk)
        batch.check_frame()
        batch.verify_crc()
        if (
            batch.base_offset < base_offset
            or batch.last_offset_delta < 0
            or batch.last_offset - base_offset > RELATIVE_OFFSET_MAX
        ):
            raise CorruptBatch(f"offsets {batch.base_offset}..{batch.last_offset} in the segment at {base_offset}")
        return batch

    def _read(self, position: int, size: int) -> None:
        self._chunk, self._start = self._file.pread(min(size, self._end - position), position), position
