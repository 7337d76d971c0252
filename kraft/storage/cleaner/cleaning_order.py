"""Input and results of a cleaning. All are plain values, because the computation may run in another process.

Which log is cleaned next is decided in `kraft.storage.cleaner.cleaner_manager`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kraft.storage.indexes.transaction_index import AbortedTransaction

NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """A closed segment, which is no longer written. `end_offset` is the base offset of the next segment. `aborted` are
    the aborted transactions that overlap the segment."""

    base_offset: int
    end_offset: int
    size: int
    offset_index_bytes: int
    time_index_bytes: int
    aborted: tuple[AbortedTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerLimits:
    """Resource limits of one cleaning. `io_bytes_per_second` counts both reads and writes."""

    map_bytes: int = 128 << 20
    io_buffer_bytes: int = 256 << 10
    io_bytes_per_second: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningOrder:
    """The input of one cleaning: the segments of one log, oldest first, its dirty range, and the topic's configuration.

    `producers` is a flat array of (producer id, last offset, epoch) of the live producers. The last offset is NO_OFFSET
    if the producer's epoch is known from a marker only; otherwise the epoch is not used. With `keeps_ends` tombstones
    and markers are kept even after their delete horizon.
    """

    directory: str
    segments: tuple[SourceSegment, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    high_watermark: int
    producers: bytes
    now_ms: int
    delete_retention_ms: int
    keeps_ends: bool = False
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    limits: CleanerLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedSegment:
    """Result: the keys of one segment are in the map."""

    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """Result: adjacent segments, given by base offsets, have a durable cleaned copy. The `.cleaned` files are named by
    the first base offset and hold `size` bytes of batches."""

    base_offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningEnd:
    """Result: the log is clean below `end_offset`. `kept` counts the batches and segments that could not be read and
    were kept unchanged. `kept_notes` has a sentence on the first of them, `kept_ranges` their offsets, ends exclusive.
    """

    end_offset: int
    records_read: int
    records_kept: int
    bytes_read: int
    kept: int
    kept_notes: tuple[str, ...]
    kept_ranges: tuple[tuple[int, int], ...]


CleaningResult = MappedSegment | CleanedGroup | CleaningEnd
