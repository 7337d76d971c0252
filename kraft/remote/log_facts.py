"""What decisions about the tiers of a log are made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.segment_metadata import EpochRange, RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSegment:
    """A segment on the disk. `end_offset` is where the next one begins, or the log's end."""

    base_offset: int
    end_offset: int
    size: int
    timestamp_ms: int
    """Of its newest record; of its file where no record has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """One replica's log at one moment."""

    segments: Sequence[LocalSegment]
    """Those on the disk, ascending, without holes; the last one is active. Never empty."""
    leader_epochs: Sequence[tuple[int, int]]
    """(epoch, start offset) as in the leader epoch cache, from the log's start offset on."""
    log_start_offset: int
    """Where the log begins, in whichever tier."""
    last_stable_offset: int
    """What lies below is committed, and belongs to no open transaction."""

    @property
    def log_end_offset(self) -> int:
        return self.segments[-1].end_offset

    @property
    def local_log_start_offset(self) -> int:
        return max(self.segments[0].base_offset, self.log_start_offset)

    def lineage(self) -> Iterator[EpochRange]:
        """Which epoch wrote which offsets of this log; epochs without records are left out."""
        entries = self.leader_epochs
        for index, (epoch, start_offset) in enumerate(entries):
            end_offset = entries[index + 1][1] if index + 1 < len(entries) else self.log_end_offset
            start_offset = max(start_offset, self.log_start_offset)
            if start_offset < end_offset:
                yield EpochRange(epoch, start_offset, end_offset - 1)


def remote_ranges(
    facts: LogFacts, cache: RemoteLogMetadataCache
) -> Iterator[tuple[EpochRange, RemoteLogSegmentMetadata]]:
    """What of this log is in the remote tier, ascending; ranges may overlap, and none lies within another.

    A segment counts as far as its epochs are those of the log: the same offset written in the same epoch is the same
    record (KIP-101), whoever wrote or copied it, and whatever other epochs the segment has.
    """
    for epoch, start_offset, last_offset in facts.lineage():
        ranges: list[tuple[EpochRange, RemoteLogSegmentMetadata]] = []
        for found, segment in cache.ranges_of_epoch(epoch):
            first, last = max(found.start_offset, start_offset), min(found.last_offset, last_offset)
            if first > last or (ranges and ranges[-1][0].last_offset >= last):
                continue  # None of this log, or cut to a part of the one before.
            while ranges and ranges[-1][0].start_offset >= first:
                ranges.pop()  # Cut to a part of this one.
            ranges.append((EpochRange(epoch, first, last), segment))
        yield from ranges


def copied_end_offset(facts: LogFacts, cache: RemoteLogMetadataCache) -> int:
    """From the first offset on the disk on, everything below is in the remote tier too. That first offset where
    nothing is."""
    end_offset = facts.local_log_start_offset
    for epoch, start_offset, last_offset in facts.lineage():
        while start_offset <= end_offset <= last_offset:
            segment = cache.remote_log_segment_metadata(epoch, end_offset)
            if segment is None:
                return end_offset
            found = next(each for each in segment.epoch_ranges() if each.leader_epoch == epoch)
            end_offset = min(found.last_offset, last_offset) + 1
    return end_offset
