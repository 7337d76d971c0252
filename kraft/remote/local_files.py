"""Reads a log on the disk: the facts for decisions, and the contents of a segment to copy."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kraft.remote.log_facts import LocalSegment, LogFacts, copied_end_offset
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.object_names import LEADER_EPOCHS_SUFFIX
from kraft.remote.segment_copies import Contents
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.log_files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from kraft.storage.log_segment import LogSegment
from kraft.storage.producers.producer_snapshot import encode_snapshot
from kraft.storage.tiered_log import lacking_snapshots, make_snapshot
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import FilePart
from kraft.world.steps import at_once

NOBODY_EXPIRES = 0
"""The time passed to `make_snapshot`, so that it drops no producer as expired."""


def facts_of(log: UnifiedLog, first: int = 0, count: int | None = None) -> LogFacts:
    """Return the facts of the log as of now. Raises OSError, CorruptData.

    `count` segments from index `first` on are listed one by one. The segments before them are listed as one, and so are
    those after them: only a few of many segments matter at a time.
    """
    behind = len(log.segments) if count is None else min(first + count, len(log.segments))
    return LogFacts(
        segments=[
            *_as_one(log, 0, first),
            *(_local_segment(log, index) for index in range(first, behind)),
            *_as_one(log, behind, len(log.segments)),
        ],
        leader_epochs=log.leader_epoch_cache.entries,
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
    )


def facts_to_copy(log: UnifiedLog, cache: RemoteLogMetadataCache) -> LogFacts:
    """Return the facts of the log as of now: the copied segments as one, the next segment to copy, and the rest as one.
    Raises OSError, CorruptData."""
    facts, segments = reading_facts(log), log.segments
    first = first_to_copy(log, copied_end_offset(facts, cache))
    known_from = facts.leader_epochs[0][1] if facts.leader_epochs else log.log_end_offset
    if max(segments[first].base_offset, log.log_start_offset) < known_from:
        first = max(first, min(bisect_left(segments, known_from, key=_base_offset), len(segments) - 1))
    return facts_of(log, first, 1)


def first_to_copy(log: UnifiedLog, copied: int) -> int:
    """Return the index of the first segment that is not completely in the remote tier. Everything below offset `copied`
    is there."""
    return max(bisect_right(log.segments, copied, key=_base_offset) - 1, 0)


def _base_offset(segment: LogSegment) -> int:
    return segment.base_offset


def _as_one(log: UnifiedLog, first: int, behind: int) -> list[LocalSegment]:
    """Return the segments at these indexes as one; an empty list if there are none. The timestamp of the result is not
    used."""
    segments = log.segments[first:behind]
    if not segments:
        return []
    size = sum(segment.size for segment in segments)
    return [
        LocalSegment(
            base_offset=segments[0].base_offset, end_offset=_end_offset(log, behind - 1), size=size, timestamp_ms=-1
        )
    ]


def _local_segment(log: UnifiedLog, index: int) -> LocalSegment:
    segment = log.segments[index]
    return LocalSegment(
        base_offset=segment.base_offset,
        end_offset=_end_offset(log, index),
        size=segment.size,
        timestamp_ms=_timestamp_of(segment),
    )


def _end_offset(log: UnifiedLog, index: int) -> int:
    return log.segments[index + 1].base_offset if index + 1 < len(log.segments) else log.log_end_offset


def reading_facts(log: UnifiedLog) -> LogFacts:
    """Return the facts needed to look up remote segments, without reading any file. All local segments are listed as
    one."""
    whole = LocalSegment(base_offset=log.segments[0].base_offset, end_offset=log.log_end_offset, size=0, timestamp_ms=0)
    return LogFacts(
        segments=[whole],
        leader_epochs=log.leader_epoch_cache.entries,
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
    )


def _timestamp_of(segment: LogSegment) -> int:
    return segment.largest_timestamp if segment.largest_timestamp >= 0 else segment.modified_ms()


def contents_of(log: UnifiedLog, copied: LocalSegment) -> Contents:
    """Return the contents to store for a closed segment. The transaction index is left out if no transaction was
    aborted. Raises OSError, CorruptData."""
    segments = log.segments
    segment = segments[bisect_left(segments, copied.base_offset, key=_base_offset)]
    assert segment.base_offset == copied.base_offset, f"{log.directory}: no segment at {copied.base_offset}"
    epochs = LeaderEpochCache(entry for entry in log.leader_epoch_cache.entries if entry[1] < copied.end_offset)
    contents: dict[str, FilePart | bytes] = {
        LOG_SUFFIX: FilePart(segment.path(LOG_SUFFIX), copied.size),
        OFFSET_INDEX_SUFFIX: FilePart(segment.path(OFFSET_INDEX_SUFFIX), segment.offset_index.size),
        TIME_INDEX_SUFFIX: FilePart(segment.path(TIME_INDEX_SUFFIX), segment.time_index.size),
        PRODUCER_SNAPSHOT_SUFFIX: _producer_snapshot(log, copied.end_offset),
        LEADER_EPOCHS_SUFFIX: epochs.to_text().encode(),
    }
    if segment.transaction_index.size:
        path = segment.path(TRANSACTION_INDEX_SUFFIX)
        contents[TRANSACTION_INDEX_SUFFIX] = FilePart(path, segment.transaction_index.size)
    return contents


def _producer_snapshot(log: UnifiedLog, end_offset: int) -> FilePart | bytes:
    """Return the producer snapshot at `end_offset`; an empty one if there was no producer. Raises OSError, CorruptData.

    A lost snapshot file is created again, because a replica that starts after this copy must know the open
    transactions.
    """
    if end_offset in lacking_snapshots(log):
        at_once(make_snapshot(log, end_offset, NOBODY_EXPIRES))
    if end_offset not in log.producers.snapshots:
        return encode_snapshot(())
    path = log.producers.path_of(end_offset)
    return FilePart(path, log.local.cache.files.status(path).size)
