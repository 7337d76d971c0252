"""Batches in a file, as they are believed: whole, with a CRC that holds. And what to think of a place that holds
none.

At the end of a log such a place is either what a crash left of batches that were not synced, or damage to what was
written. The first is truncated; the second must not be, for those records may be acknowledged. Whether whole batches
follow does not tell the two apart alone: a crash may keep any sectors of what was not synced, so also later ones. But
a sector that did not get to the disk reads as zeroes, and damage looks otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kraft.protocol.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, CorruptBatch, RecordBatch
from kraft.world.ports import File

SCAN_BYTES: Final = 1 << 20
SECTOR_BYTES: Final = 512
"""The least that a disk writes whole; a power of two that divides every other such unit."""
_SPAN: Final = Struct(">qi4xb")  # base offset, length, (leader epoch,) magic
_MAGIC_AT: Final = _SPAN.size - 1


def read_batch(file: File, position: int, length: int) -> RecordBatch | None:
    """The batch at `position` of a file of `length` bytes if it is whole and its CRC holds, else None."""
    head = file.pread(HEADER_SIZE, position)
    if len(head) < HEADER_SIZE:
        return None
    batch = RecordBatch(head)
    if (
        batch.magic != MAGIC
        or batch.size < HEADER_SIZE
        or position + batch.size > length
        or batch.last_offset_delta < 0
    ):
        return None
    batch = RecordBatch(head + file.pread(batch.size - HEADER_SIZE, position + HEADER_SIZE))
    try:
        batch.verify_crc()
    except CorruptBatch:
        return None
    return batch


def damage_before(file: File, position: int, length: int, offset: int) -> tuple[int, RecordBatch] | None:
    """Position and batch of the first whole one behind `position`, where the batch of `offset` should be and is not,
    if no crash explains that. Else None."""
    for found in _candidates(file, position, length, offset):
        batch = read_batch(file, found, length)
        if batch is not None:
            return (
                None
                if _is_unwritten(file, position, found + _leading_zeroes(batch.base_offset), offset)
                else (found, batch)
            )
    return None


def _candidates(file: File, position: int, length: int, offset: int) -> Iterator[int]:
    """Where from `position` on something looks like the header of a batch that continues a log from `offset` on, in
    reach of the file's bytes."""
    magic, last_offset = bytes((MAGIC,)), offset + length - position
    start = position
    while start + HEADER_SIZE <= length:
        chunk = file.pread(SCAN_BYTES + _MAGIC_AT, start)
        at = chunk.find(magic, _MAGIC_AT)
        while at >= 0:
            base_offset, size, _ = _SPAN.unpack_from(chunk, at - _MAGIC_AT)
            if offset <= base_offset <= last_offset and HEADER_SIZE - LOG_OVERHEAD <= size <= length:
                yield start + at - _MAGIC_AT
            at = chunk.find(magic, at + 1)
        start += SCAN_BYTES


def is_written(file: File, position: int, end: int, offset: int) -> bool:
    """Whether every sector of [position, end), where the batch of `offset` should be, has been written."""
    return not _is_unwritten(file, position, end, offset)


def _is_unwritten(file: File, position: int, end: int, offset: int) -> bool:
    """Whether a sector that reaches into [position, end) has never been written from `position` on, and should have
    been: it holds the batch of `offset`."""
    start = position
    while start < end:
        sector_end = (start // SECTOR_BYTES + 1) * SECTOR_BYTES
        is_told_by_zeroes = sector_end - position > _leading_zeroes(offset)
        if sector_end <= end and is_told_by_zeroes and not any(file.pread(sector_end - start, start)):
            return True
        start = sector_end
    return False


def _leading_zeroes(offset: int) -> int:
    """Bytes at the beginning of a batch of `offset` that are zero, written or not."""
    return 8 - (offset.bit_length() + 7) // 8
