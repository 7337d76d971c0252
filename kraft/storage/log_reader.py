"""Reads: from offsets and timestamps to slices of files. Batches are not decoded here."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.file_cache import OpenFile
from kraft.storage.log_segment import LogSegment
from kraft.world.ports import File


class FileSlice:
    """A range of a file: `size` bytes from `position`. The file stays open while this object exists."""

    __slots__ = ("_opened", "file", "position", "size")

    def __init__(self, opened: OpenFile, position: int, size: int) -> None:
        self._opened = opened
        self.file: File = opened.file
        self.position = position
        self.size = size

    def read(self) -> bytes:
        return self.file.pread(self.size, self.position)


class FetchData:
    """Batches from the one that contains the requested offset, as file slices to send in order. The last batch may be
    incomplete, as Fetch allows. They end at `end_position` in `segment`, which is None if there are no batches."""

    __slots__ = ("end_position", "segment", "size", "slices")

    def __init__(
        self,
        slices: Sequence[FileSlice] = (),
        size: int = 0,
        segment: LogSegment | None = None,
        end_position: int = 0,
    ) -> None:
        self.slices = slices
        self.size = size
        self.segment = segment
        self.end_position = end_position

    def read(self) -> bytes:
        """All bytes in memory."""
        return b"".join(piece.read() for piece in self.slices)


EMPTY = FetchData()


def segment_at(segments: Sequence[LogSegment], offset: int) -> int:
    """Index of the segment that would hold `offset`; 0 if `offset` is before all segments."""
    last = len(segments) - 1
    if offset >= segments[last].base_offset:  # Most reads: of what has come lately.
        return last
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _base_offset(segment: LogSegment) -> int:
    return segment.base_offset


def read_slices(
    segments: Sequence[LogSegment], offset: int, max_bytes: int, bound: int, end_offset: int, min_one_message: bool
) -> FetchData:
    """Slices from the batch that contains `offset` up to `bound` (exclusive) or `max_bytes`, across segments. With
    `min_one_message` at least one whole batch."""
    at = segment_at(segments, offset)
    span = segments[at].find(offset)
    while span is None:
        at += 1
        if at == len(segments):
            return EMPTY
        span = segments[at].find(offset)
    if span.base_offset >= bound:
        return EMPTY
    room = max(max_bytes, span.size) if min_one_message else max_bytes
    if span.size > room:
        return EMPTY
    slices: list[FileSlice] = []
    last_segment, end_position = None, 0
    position, taken = span.position, 0
    while room > 0:
        segment = segments[at]
        end = _end_position(segments, at, bound, end_offset)
        count = min(end - position, room)
        if count > 0:
            slices.append(FileSlice(segment.open_log(), position, count))
            taken += count
            room -= count
            last_segment, end_position = segment, position + count
        at += 1
        if end < segment.size or at == len(segments):
            break
        position = 0
    return FetchData(slices, taken, last_segment, end_position)


def _end_position(segments: Sequence[LogSegment], at: int, bound: int, end_offset: int) -> int:
    """The position in segment `at` where the batches below `bound` end."""
    segment = segments[at]
    if bound >= end_offset or (at + 1 < len(segments) and segments[at + 1].base_offset <= bound):
        return segment.size
    span = segment.find(bound)
    return segment.size if span is None else span.position


def find_batch_by_timestamp(segments: Sequence[LogSegment], timestamp: int, start_offset: int) -> RecordBatch | None:
    """The first batch that ends at `start_offset` or later and has a record not earlier than `timestamp`."""
    for segment in segments[segment_at(segments, start_offset) :]:
        if segment.size and segment.largest_timestamp >= timestamp:
            found = segment.find_batch_by_timestamp(timestamp, start_offset)
            if found is not None:
                return found
    return None
