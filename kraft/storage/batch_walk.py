"""Walk the batches of a `.log` by their headers, reading the file in chunks. Record data between headers that are far
apart is not read."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from kraft.common.errors import CorruptData
from kraft.protocol.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, RecordBatch
from kraft.world.ports import File

CHUNK_BYTES = 4096

_SPAN = Struct(">qi11xi")  # base offset, length, (leader epoch, magic, CRC, attributes), last offset delta


class BatchSpan:
    """The offsets of one batch, and its position and size in the file."""

    __slots__ = ("base_offset", "last_offset", "position", "size")

    def __init__(self, base_offset: int, last_offset: int, position: int, size: int) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.position = position
        self.size = size


def find_batch(file: File, position: int, end: int, offset: int) -> BatchSpan | None:
    """Return the first batch in [position, end) whose last offset is at least `offset`, or None. Both `position` and
    `end` must be batch boundaries.

    Raises CorruptData if a damaged header hides the batches behind it.
    """
    chunk, start = b"", position
    while position + HEADER_SIZE <= end:
        at = position - start
        if at + _SPAN.size > len(chunk):
            chunk, start, at = file.pread(min(CHUNK_BYTES, end - position), position), position, 0
            if len(chunk) < _SPAN.size:
                break
        base_offset, length, last_offset_delta = _SPAN.unpack_from(chunk, at)
        size = length + LOG_OVERHEAD
        if size < HEADER_SIZE or position + size > end:
            break
        if base_offset + last_offset_delta >= offset:
            return BatchSpan(base_offset, base_offset + last_offset_delta, position, size)
        position += size
    if position != end:
        raise _no_batch(file, position, end)
    return None


def batch_at(file: File, position: int, end: int) -> BatchSpan | None:
    """Return the batch at `position`, or None if its header is impossible."""
    data = file.pread(min(HEADER_SIZE, end - position), position)
    if len(data) < _SPAN.size:
        return None
    base_offset, length, last_offset_delta = _SPAN.unpack_from(data)
    size = length + LOG_OVERHEAD
    if size < HEADER_SIZE or position + size > end:
        return None
    return BatchSpan(base_offset, base_offset + last_offset_delta, position, size)


def walk_headers(file: File, position: int, end: int) -> Iterator[tuple[int, RecordBatch]]:
    """Yield (position, header view) of each whole batch in [position, end). Stops at a torn tail. The views hold the
    header only."""
    chunk, start = b"", position
    while position + HEADER_SIZE <= end:
        at = position - start
        if at + HEADER_SIZE > len(chunk):
            chunk, start, at = file.pread(min(CHUNK_BYTES, end - position), position), position, 0
            if len(chunk) < HEADER_SIZE:
                return
        batch = RecordBatch(chunk, at)
        if batch.size < HEADER_SIZE or position + batch.size > end:
            return
        yield position, batch
        position += batch.size


def walk_whole(file: File, position: int, end: int) -> Iterator[tuple[int, RecordBatch]]:
    """Walk like `walk_headers`, but reject a torn tail. Raises CorruptData if the batches do not end exactly at `end`,
    after yielding the batches before the damage."""
    for at, header in walk_headers(file, position, end):
        position = at + header.size
        yield at, header
    if position != end:
        raise _no_batch(file, position, end)


def read_ahead(file: File, end: int, chunk_bytes: int) -> Iterator[RecordBatch]:
    """Yield every whole batch in [0, end), reading about `chunk_bytes` at a time. CRCs are not checked. Raises
    CorruptBatch. Raises CorruptData if the batches do not end at `end`, after yielding the batches before the damage.
    """
    position = start = 0
    chunk = b""
    while position + HEADER_SIZE <= end:
        if position + HEADER_SIZE > start + len(chunk):
            chunk, start = file.pread(min(chunk_bytes, end - position), position), position
            if len(chunk) < HEADER_SIZE:
                break
        batch = RecordBatch(chunk, position - start)
        size = batch.size
        if size < HEADER_SIZE or position + size > end:
            break
        if position + size > start + len(chunk):
            chunk, start = file.pread(min(max(chunk_bytes, size), end - position), position), position
            if len(chunk) < size:
                break
            batch = RecordBatch(chunk)
        batch.check_frame()
        yield batch
        position += size
    if position != end:
        raise _no_batch(file, position, end)


def _no_batch(file: File, position: int, end: int) -> CorruptData:
    return CorruptData(f"{file.path}: no whole batch at position {position}, although the log has {end} bytes")


def read_batch(file: File, position: int, size: int) -> RecordBatch:
    """The whole batch at `position`. Raises CorruptBatch when it is not whole."""
    batch = RecordBatch(file.pread(size, position))
    batch.check_frame()
    return batch


def read_checked(file: File, position: int, size: int) -> RecordBatch:
    """Read a batch and verify its CRC. Used before a batch is rewritten with a new CRC. Raises CorruptBatch."""
    batch = read_batch(file, position, size)
    batch.verify_crc()
    return batch
