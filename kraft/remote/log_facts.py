"""The inputs of decisions about the tiers of a log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.segment_metadata import EpochRange, RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSegment:
    """A segment on the disk. `end_offset` is the base offset of the next segment, or the log end offset."""

    base_offset: int
    end_offset: int
    size: int
    timestamp_ms: int
    """The timestamp of the segment's newest record, or of its file if no record has a timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """One replica's log at one moment."""

    segments: Sequence[LocalSegment]
    """The segments on the disk, ascending, without holes. The last one is active. Never empty."""
    leader_epochs: Sequence[tuple[int, int]]
    """The leader epochs as (epoch, start offset), as in the leader epoch cache, from the log's start offset on."""
    log_start_offset: int
    """The log start offset over both tiers."""
    last_stable_offset: int
    """The last stable offset. Records below it are committed and belong to no open transaction."""

    @property
    def log_end_offset(self) -> int:
        return self.segments[-1].end_offset

    @property
    def local_log_start_offset(self) -> int:
        return max(self.segments[0].base_offset, self.log_start_offset)

    def lineage(self, offset: int = 0) -> Iterator[EpochRange]:
        """Return the offset range of each epoch in this log, from the epoch of `offset` on. Epochs without records are
        left out."""
        entries = self.leader_epochs
        begin = bisect_right(entries, offset, key=lambda entry: entry[1]) - 1
        for index in range(max(begin, 0), len(entries)):
            found = self._range_at(index)
            if found.start_offset <= found.last_offset:
                yield found

    def range_of(self, epoch: int) -> EpochRange | None:
        """Return the offset range of the epoch in this log; None if it has no records."""
        index = bisect_left(self.leader_epochs, epoch, key=lambda entry: entry[0])
        if index == len(self.leader_epochs) or self.leader_epochs[index][0] != epoch:
            return None
        found = self._range_at(index)
        return found if found.start_offset <= found.last_offset else None

    def _range_at(self, index: int) -> EpochRange:
        epoch, start_offset = self.leader_epochs[index]
        is_last = index + 1 == len(self.leader_epochs)
        end_offset = self.log_end_offset if is_last else self.leader_epochs[index + 1][1]
        return EpochRange(epoch, max(start_offset, self.log_start_offset), end_offset - 1)


def remote_ranges(
    facts: LogFacts, cache: RemoteLogMetadataCache
) -> Iterator[tuple[EpochRange, RemoteLogSegmentMetadata]]:
    """Return the ranges of this log that are in the remote tier, ascending. Ranges may overlap, but none lies within
    another.

    A segment counts as far as its epochs are those of the log: the same offset written in the same epoch is the same
    record (KIP-101), whichever broker wrote or copied it, and whatever other epochs the segment has.
    """
    for epoch, start_offset, last_offset in facts.lineage():
        before: tuple[EpochRange, RemoteLogSegmentMetadata] | None = None
        for found, segment in cache.ranges_of_epoch(epoch, start_offset):
            first, last = max(found.start_offset, start_offset), min(found.last_offset, last_offset)
            if first > last:
                break  # Not part of this log, and neither are the following ones.
            if before is not None and before[0].last_offset >= last:
                continue  # It was cut to a part of the previous range.
            if before is not None and before[0].start_offset < first:
                yield before  # Otherwise it was cut to a part of this range.
            before = EpochRange(epoch, first, last), segment
        if before is not None:
            yield before


def copied_end_offset(facts: LogFacts, cache: RemoteLogMetadataCache) -> int:
    """Return the offset below which all records from the local log start offset on are in the remote tier too. It is
    the local log start offset if none are."""
    end_offset = facts.local_log_start_offset
    for epoch, start_offset, last_offset in facts.lineage():
        if start_offset <= end_offset <= last_offset:
            covered_last = cache.covered_last(epoch, end_offset)
            if covered_last is None:
                return end_offset
            end_offset = min(covered_last, last_offset) + 1
            if end_offset <= last_offset:
                return end_offset
    return end_offset
