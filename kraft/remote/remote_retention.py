"""Decides which segments to delete from the remote tier. A pure decision over facts."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from kraft.common.errors import KraftError
from kraft.common.ids import Uuid
from kraft.remote.log_facts import LogFacts, copied_end_offset, remote_ranges
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from kraft.world.steps import Steps

SEGMENTS_A_TURN: Final = 250
TRIES_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRetention:
    """The retention limits of a tiered topic. `retention.ms` and `retention.bytes` apply to both tiers together; -1
    means no limit."""

    retention_ms: int
    retention_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The decision: first raise the log start offset to `log_start_offset`, then delete `segments`, each with its
    reason."""

    log_start_offset: int
    segments: Sequence[tuple[RemoteLogSegmentMetadata, str]]


def expiry_of(
    facts: LogFacts,
    cache: RemoteLogMetadataCache,
    retention: RemoteRetention,
    *,
    leader_epoch: int,
    being_copied: Container[Uuid],
    now_ms: int,
) -> Steps[Expiry]:
    """Return the result of `expired_segments`, in steps. It restarts if the metadata changes meanwhile. Only this
    leader, or a former leader that still writes, changes it. Raises KraftError if the changes do not stop."""
    for _ in range(TRIES_MAX):
        work = expired_segments(
            facts, cache, retention, leader_epoch=leader_epoch, being_copied=being_copied, now_ms=now_ms
        )
        found = yield from _while_unchanged(cache, work)
        if found is not None:
            return found
    raise KraftError("the metadata kept changing while expired segments were selected")


def _while_unchanged(cache: RemoteLogMetadataCache, work: Steps[Expiry]) -> Steps[Expiry | None]:
    """Return the result of `work`; None if a record was replayed into the cache during a yield."""
    version = cache.version
    while True:
        try:
            next(work)
        except StopIteration as end:
            expiry: Expiry = end.value
            return expiry
        yield None
        if cache.version != version:
            return None


def expired_segments(
    facts: LogFacts,
    cache: RemoteLogMetadataCache,
    retention: RemoteRetention,
    *,
    leader_epoch: int,
    being_copied: Container[Uuid],
    now_ms: int,
) -> Steps[Expiry]:
    """Return what the leader of `leader_epoch` must delete. Yields after each SEGMENTS_A_TURN segments; no record may
    be replayed into the cache meanwhile.

    `being_copied` are the ids of its own copies in progress. A segment with a later epoch was copied by a later leader,
    whose log this replica does not know: it is kept. Everything from the new log start offset on stays readable.
    """
    needed: dict[Uuid, int] = {}
    size = 0
    for done, (found, segment) in enumerate(remote_ranges(facts, cache), 1):
        if segment.segment_id not in needed:
            size += segment.size
        needed[segment.segment_id] = found.last_offset
        if done % SEGMENTS_A_TURN == 0:
            yield None
    log_start_offset = yield from _retained_start_offset(facts, cache, retention, size, leader_epoch, now_ms)
    doomed = []
    for done, segment in enumerate(cache.segments(), 1):
        if done % SEGMENTS_A_TURN == 0:
            yield None
        if segment.last_epoch <= leader_epoch and segment.segment_id not in being_copied:
            last_needed = needed.get(segment.segment_id, -1)
            reason = _reason(segment, facts, last_needed, log_start_offset)
            if reason:
                doomed.append((segment, reason))
    return Expiry(log_start_offset=log_start_offset, segments=doomed)


def _reason(segment: RemoteLogSegmentMetadata, facts: LogFacts, last_needed: int, log_start_offset: int) -> str:
    """Return why the segment may be deleted; empty if it must stay. `last_needed` is the last offset that this log
    reads from it."""
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
        own is not None and own.start_offset <= theirs.last_offset and own.last_offset >= theirs.start_offset
        for theirs in segment.epoch_ranges()
        for own in (facts.range_of(theirs.leader_epoch),)
    )


def _retained_start_offset(
    facts: LogFacts,
    cache: RemoteLogMetadataCache,
    retention: RemoteRetention,
    remote_size: int,
    leader_epoch: int,
    now_ms: int,
) -> Steps[int]:
    """Return the log start offset after the oldest segments beyond the retention time or size are deleted.

    It stops at the first segment that is within retention, that a later leader copied, or that follows records which
    are only on this disk.
    """
    log_start_offset = facts.log_start_offset
    copied = copied_end_offset(facts, cache)
    size = remote_size + sum(segment.size for segment in facts.segments if segment.end_offset > copied)
    excess = size - retention.retention_bytes
    breached: dict[Uuid, bool] = {}
    for done, (found, segment) in enumerate(remote_ranges(facts, cache), 1):
        if done % SEGMENTS_A_TURN == 0:
            yield None
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
    """Whether the segment is beyond the retention time, by its newest record, or by the age of its copy if no record
    has a timestamp."""
    timestamp = segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.event_timestamp_ms
    return retention.retention_ms >= 0 and now_ms - timestamp > retention.retention_ms
