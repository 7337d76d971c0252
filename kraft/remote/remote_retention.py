"""Which segments are to be deleted from the remote tier: a decision over facts."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from kraft.common.ids import Uuid
from kraft.remote.log_facts import LogFacts, copied_end_offset, remote_ranges
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.segment_metadata import EpochRange, RemoteLogSegmentMetadata, RemoteLogSegmentState


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRetention:
    """`retention.ms` and `retention.bytes` count both tiers; -1 means no limit."""

    retention_ms: int
    retention_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """First the log begins at `log_start_offset`, then `segments` are deleted, each for its reason."""

    log_start_offset: int
    segments: Sequence[tuple[RemoteLogSegmentMetadata, str]]


def expired_segments(
    facts: LogFacts,
    cache: RemoteLogMetadataCache,
    retention: RemoteRetention,
    *,
    leader_epoch: int,
    being_copied: Container[Uuid],
    now_ms: int,
) -> Expiry:
    """What the leader of `leader_epoch` has to delete. `being_copied` are the ids of its own copies under way.

    A segment with a later epoch was copied by a later leader, of whose log this replica knows nothing: it is left
    alone.
    Nothing that can be read from the new start of the log on becomes unreadable.
    """
    ranges = list(remote_ranges(facts, cache))
    log_start_offset = _retained_start_offset(facts, cache, retention, ranges, leader_epoch, now_ms)
    needed = {segment.segment_id: found.last_offset for found, segment in ranges}
    doomed = []
    for segment in cache.segments():
        if segment.last_epoch <= leader_epoch and segment.segment_id not in being_copied:
            last_needed = needed.get(segment.segment_id, -1)
            reason = _reason(segment, facts, last_needed, log_start_offset)
            if reason:
                doomed.append((segment, reason))
    return Expiry(log_start_offset=log_start_offset, segments=doomed)


def _reason(segment: RemoteLogSegmentMetadata, facts: LogFacts, last_needed: int, log_start_offset: int) -> str:
    """Why the segment may go; empty where it may not. `last_needed` is the last offset of this log that is read from
    it."""
    if segment.state == RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        return "abandoned copy"
    if segment.state == RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
        return "unfinished deletion"
    if not facts.leader_epochs or last_needed >= log_start_offset:
        return ""
    if segment.last_offset < facts.log_start_offset:
        return "log start offset breach"
    if last_needed >= 0:
        return "retention breach"
    return "within another segment" if _has_part_of(segment, facts) else "not of this log"


def _has_part_of(segment: RemoteLogSegmentMetadata, facts: LogFacts) -> bool:
    return any(
        found.leader_epoch == epoch and found.start_offset <= last_offset and found.last_offset >= start_offset
        for epoch, start_offset, last_offset in facts.lineage()
        for found in segment.epoch_ranges()
    )


def _retained_start_offset(
    facts: LogFacts,
    cache: RemoteLogMetadataCache,
    retention: RemoteRetention,
    ranges: Sequence[tuple[EpochRange, RemoteLogSegmentMetadata]],
    leader_epoch: int,
    now_ms: int,
) -> int:
    """Where the log begins once the oldest segments that are too old or too much are gone. Stops at the first that is
    neither, that a later leader copied, or in front of which there is something on this disk alone."""
    log_start_offset = facts.log_start_offset
    copied = copied_end_offset(facts, cache)
    sizes = {segment.segment_id: segment.size for _, segment in ranges}
    size = sum(sizes.values()) + sum(segment.size for segment in facts.segments if segment.end_offset > copied)
    excess = size - retention.retention_bytes
    breached: dict[Uuid, bool] = {}
    for found, segment in ranges:
        is_hole_on_disk = found.start_offset > max(log_start_offset, facts.local_log_start_offset)
        if is_hole_on_disk or segment.last_epoch > leader_epoch:
            break
        if segment.segment_id not in breached:
            is_too_much = retention.retention_bytes >= 0 and excess >= segment.size
            breached[segment.segment_id] = is_too_much or _is_too_old(segment, retention, now_ms)
            excess -= segment.size
        if not breached[segment.segment_id]:
            break
        log_start_offset = max(log_start_offset, found.last_offset + 1)
    return log_start_offset


def _is_too_old(segment: RemoteLogSegmentMetadata, retention: RemoteRetention, now_ms: int) -> bool:
    """By its newest record; by its copy's age where no record has a timestamp."""
    timestamp = segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.event_timestamp_ms
    return retention.retention_ms >= 0 and now_ms - timestamp > retention.retention_ms
