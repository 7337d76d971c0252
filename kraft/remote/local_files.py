"""What is to be decided upon, and copied, of a log on the disk."""

from __future__ import annotations

from bisect import bisect_left

from kraft.remote.log_facts import LocalSegment, LogFacts
from kraft.remote.object_names import LEADER_EPOCHS_SUFFIX
from kraft.remote.remote_partition import Contents
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.log_files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from kraft.storage.log_segment import LogSegment
from kraft.storage.producer_snapshot import encode_snapshot
from kraft.storage.steps import run_here
from kraft.storage.tiered_log import lacking_snapshots, make_snapshot
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import FilePart

NOBODY_EXPIRES = 0
"""As the time now: no producer has been idle for long."""


def facts_of(log: UnifiedLog) -> LogFacts:
    """The log as it is now. Raises OSError, CorruptData."""
    segments = log.segments
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    return LogFacts(
        segments=[
            LocalSegment(
                base_offset=segment.base_offset, end_offset=end, size=segment.size, timestamp_ms=_timestamp_of(segment)
            )
            for segment, end in zip(segments, ends, strict=True)
        ],
        leader_epochs=log.leader_epoch_cache.entries,
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
    )


def reading_facts(log: UnifiedLog) -> LogFacts:
    """Enough of the log to look up what is in the remote tier, without a look at any file: its segments count as
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
    """What is stored of a sealed segment. Without a transaction index where nothing was aborted. Raises OSError,
    CorruptData."""
    segments = log.segments
    segment = segments[bisect_left(segments, copied.base_offset, key=lambda each: each.base_offset)]
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
    """There is a file if there was a producer when the segment was closed, unless it was lost: then it is made again,
    for a replica that begins with this copy has to know of transactions that are open. Raises OSError, CorruptData."""
    if end_offset in lacking_snapshots(log):
        run_here(make_snapshot(log, end_offset, NOBODY_EXPIRES))
    if end_offset not in log.producers.snapshots:
        return encode_snapshot(())
    path = log.producers.path_of(end_offset)
    return FilePart(path, log.local.cache.files.status(path).size)
