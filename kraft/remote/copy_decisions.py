"""Decides which segments of a log to copy to the remote tier, and which may be deleted from the disk. Pure decisions
over facts."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.remote.log_facts import LocalSegment, LogFacts, copied_end_offset
from kraft.remote.metadata_cache import RemoteLogMetadataCache


def segments_to_copy(facts: LogFacts, cache: RemoteLogMetadataCache) -> Sequence[LocalSegment]:
    """Return the segments to copy, in order and one after another, so that the copy has no holes.

    They are the closed segments below the last stable offset that are not completely in the remote tier. A segment that
    is there in part (another leader's segments end elsewhere) is copied as a whole. A segment whose leader epochs are
    not known is not copied.
    """
    copied = copied_end_offset(facts, cache)
    known_from = facts.leader_epochs[0][1] if facts.leader_epochs else facts.log_end_offset
    return [
        segment
        for segment in facts.segments[:-1]
        if copied < segment.end_offset <= facts.last_stable_offset
        and max(segment.base_offset, facts.log_start_offset) >= known_from
    ]


def deletable_local_segments(
    facts: LogFacts,
    cache: RemoteLogMetadataCache,
    *,
    local_retention_ms: int,
    local_retention_bytes: int,
    now_ms: int,
) -> int:
    """Return how many of the oldest segments may be deleted from the disk.

    They exceed the local retention time or size, are closed, and are completely in the remote tier, so that readers
    still find their records. -1 means no limit.
    """
    copied = copied_end_offset(facts, cache)
    excess = sum(segment.size for segment in facts.segments) - local_retention_bytes
    count = 0
    for segment in facts.segments[:-1]:
        is_too_old = local_retention_ms >= 0 and now_ms - segment.timestamp_ms > local_retention_ms
        is_too_much = local_retention_bytes >= 0 and excess >= segment.size
        if segment.end_offset > copied or not (is_too_old or is_too_much):
            break
        excess -= segment.size
        count += 1
    return count


def epochs_of_segment(facts: LogFacts, segment: LocalSegment) -> tuple[tuple[int, int], ...]:
    """Return (epoch, its first offset in the segment) for the metadata of a copy. Empty if no epoch is known."""
    entries = facts.leader_epochs
    before = [(epoch, segment.base_offset) for epoch, start_offset in entries if start_offset <= segment.base_offset]
    inside = [entry for entry in entries if segment.base_offset < entry[1] < segment.end_offset]
    return (*before[-1:], *inside)
