"""What a cleaning computes from, and what it tells: values, since the computation may run in another process."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.storage.indexes.transaction_index import AbortedTransaction

NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """One closed segment. Nobody writes to it any more. `end_offset` is where the next one begins; `aborted` are the
    aborted transactions that overlap it."""

    base_offset: int
    end_offset: int
    size: int
    offset_index_bytes: int
    time_index_bytes: int
    aborted: tuple[AbortedTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerLimits:
    """What one cleaning may use. `io_bytes_per_second` counts what is read and what is written."""

    map_bytes: int = 128 << 20
    io_buffer_bytes: int = 256 << 10
    io_bytes_per_second: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningOrder:
    """One cleaning of one log: the segments, oldest first, the dirty range, and what the topic says.

    `producers` has (producer id, last offset, epoch) three by three, of the producers that are live: the last offset
    is NO_OFFSET where only a marker stands for the epoch, and else the epoch is not asked for. With `keeps_ends` no
    tombstone and no marker goes, also where its time is over.
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
    """The keys of one segment are known."""

    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """Neighbouring segments, by their base offsets, have a copy: durable `.cleaned` files of the first one's base
    offset, with `size` bytes of batches."""

    base_offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningEnd:
    """The log is clean below `end_offset`. `kept` batches and segments could not be read and stay as they are;
    `kept_notes` has a sentence on the first ones, `kept_ranges` their offsets, ends exclusive."""

    end_offset: int
    records_read: int
    records_kept: int
    bytes_read: int
    kept: int
    kept_notes: tuple[str, ...]
    kept_ranges: tuple[tuple[int, int], ...]


CleaningResult = MappedSegment | CleanedGroup | CleaningEnd
