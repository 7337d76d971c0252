"""The segments to delete from the remote tier. A pure decision over facts."""

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
    """`retention.ms` and `retention.bytes` count both tiers; -1 means no limit."""

    retention_ms: int
    retention_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """First the log begins at `log_start_offset`, then `segments` are deleted, each for its reason."""

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
    """What `expired_segments` finds. It begins again where the metadata changed meanwhile: only this leader changes it,
    or a former one that still writes. Raises KraftError when the changes do not stop."""
    for _ in range(TRIES_MAX):
        work = expired_segments(
            facts, cache, retention, leader_epoch=leader_epoch, being_copied=being_copied, now_ms=now_ms
        )
        found = yield from _while_unchanged(cache, work)
        if found is not None:
            return found
    raise KraftError("the metadata changed while it was decided what is to be deleted")


def _while_unchanged(cache: RemoteLogMetadataCache, work: Steps[Expiry]) -> Steps[Expiry | None]:
    """What `work` returns; None where something was replayed into the cache during a pause."""
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
    """What the leader of `leader_epoch` has to delete. `being_copied` are the ids of its own copies under way. Yields
    where it may pause, after SEGMENTS_A_TURN each; nothing may be replayed into the cache meanwhile.

    A segment with a later epoch was copied by a later leader, of whose log this replica knows nothing: it is left
    alone.
    Nothing that can be read from the new start of the log on becomes unreadable.
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
    """Where the log begins once the oldest segments that are too old or too much are gone. Stops at the first that is
    neither, that a later leader copied, or in front of which there is something on this disk alone."""
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
    """By its newest record; by its copy's age where no record has a timestamp."""
    timestamp = segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.event_timestamp_ms
    return retention.retention_ms >= 0 and now_ms - timestamp > retention.retention_ms
