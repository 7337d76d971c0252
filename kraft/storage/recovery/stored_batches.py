"""Finds whole batches with a valid CRC in a file, and distinguishes torn tails from damage.

Invalid bytes at the end of a log are either the remains of batches that were not synced before a crash, or damage to
written batches. A torn tail is truncated. Damage must not be, because those records may be acknowledged. Whole batches
behind the invalid bytes do not prove damage: a crash may keep any of the unsynced sectors, including later ones. But a
sector that never reached the disk reads as zeroes, and damage does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kraft.protocol.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, CorruptBatch, RecordBatch
from kraft.world.ports import File

SCAN_BYTES: Final = 1 << 20
SECTOR_BYTES: Final = 512
"""Smallest unit that a disk writes atomically: a power of two that divides all other units."""
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
    """Position and batch of the first whole batch behind `position`, where the batch of `offset` is missing, unless a
    crash explains the gap. Else None."""
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
    """Yield positions from `position` on that look like the header of a batch continuing the log from `offset`."""
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
    """Whether a sector within [position, end) was never written, although it should hold the batch of `offset`."""
    start = position
    while start < end:
        sector_end = (start // SECTOR_BYTES + 1) * SECTOR_BYTES
        is_told_by_zeroes = sector_end - position > _leading_zeroes(offset)
        if sector_end <= end and is_told_by_zeroes and not any(file.pread(sector_end - start, start)):
            return True
        start = sector_end
    return False


def _leading_zeroes(offset: int) -> int:
    """The number of zero bytes with which a written batch with this base offset begins: they do not show that the
    sector was never written."""
    return 8 - (offset.bit_length() + 7) // 8
