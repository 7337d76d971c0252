"""What is done to a log of which the older part is in the remote tier alone (KIP-405): segments leave its disk, and a
replica begins behind what is in the remote tier.

Such a log starts where its records start, in whichever tier, and its leader epochs reach back to there: by them what
the remote tier has is found. The batches that told them may be gone from the disk, so the epochs are durable first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from kraft.common.errors import CorruptData, StorageError
from kraft.storage.directories.log_directory import LogDirectory
from kraft.storage.flush_state import NOT_CLOSED
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.producers.producer_rebuild import rebuild_producers
from kraft.storage.producers.producer_state_manager import ProducerStateManager
from kraft.storage.retention import NOTHING_DELETED, DeletedSegments, must_close_to_expire
from kraft.storage.storage_failure import upkeep_failure
from kraft.storage.truncation import checkpoint_before_truncation
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStart:
    """Where a replica goes on whose earlier records are in the remote tier: `leader_epochs` and `producer_snapshot` are
    as of `offset`."""

    log_start_offset: int
    offset: int
    leader_epochs: Sequence[tuple[int, int]]
    producer_snapshot: bytes


def lacking_snapshots(log: UnifiedLog) -> list[int]:
    """Begins of segments as of which no file tells of the producers: a log makes one with each segment, but a power
    loss may have taken it, and none was made while there was no producer."""
    producers = log.producers
    if not producers.producers and not producers.snapshots:
        return []
    known = dict.fromkeys(producers.snapshots)
    return [each.base_offset for each in log.segments[1:] if each.base_offset not in known]


def _lacks_snapshot(log: UnifiedLog, offset: int) -> bool:
    producers = log.producers
    at = bisect_left(producers.snapshots, offset)
    return bool(producers.producers or producers.snapshots) and producers.snapshots[at : at + 1] != [offset]


def make_snapshot(log: UnifiedLog, offset: int, now_ms: int) -> Steps[None]:
    """Write what the producers' state was at `offset`, where a segment begins, durably, from what is on the disk. Once
    the segments before are in the remote tier alone, nothing else tells of a transaction that was open there: its abort
    would be forgotten with the next recovery.

    Nothing is written where the log was truncated meanwhile. Raises OSError, CorruptData.
    """
    producers, truncations = log.producers, log.truncations
    problems: list[str] = []
    known = [each for each in producers.snapshots if log.local_log_start_offset <= each < offset]
    as_of = ProducerStateManager(
        log.local.cache.files, log.local.directory, snapshots=known, expiration_ms=producers.expiration_ms
    )
    yield from rebuild_producers(as_of, log.segments, log.local_log_start_offset, offset, now_ms, problems.append)
    if problems:
        raise CorruptData(problems[0])
    if log.truncations == truncations and offset not in producers.snapshots:
        yield partial(as_of.take_snapshot, durable=True)
        if log.truncations == truncations and any(each.base_offset == offset for each in log.segments):
            insort(producers.snapshots, offset)


def sync_snapshot(log: UnifiedLog, offset: int) -> None:
    """Have the snapshot at `offset` outlast a power loss. May block. Raises OSError."""
    path = log.producers.path_of(offset)
    file = log.local.cache.files.open(path)
    try:
        file.sync()
    finally:
        file.close()


def close_to_expire(log: UnifiedLog, now_ms: int) -> None:
    """Begin a new segment where the active one is all that is on the disk, and is to leave it. Raises OSError."""
    if not log.is_appending and must_close_to_expire(
        log.segments,
        log.config,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        now_ms=now_ms,
    ):
        log.roll(now_ms)


def delete_local_segments(log: UnifiedLog, count: int) -> DeletedSegments:
    """Take the `count` oldest segments off the disk; the log starts where it did. The caller knows that the remote tier
    has all of them, and removes their files later. Nothing happens while the leader epochs are not durable, an append
    is under way, or what is left does not tell of the producers (`make_snapshot`). Raises StorageError."""
    assert log.config.remote_storage_enable
    assert count < len(log.segments)
    if count and _lacks_snapshot(log, log.segments[count].base_offset):
        return NOTHING_DELETED
    if not count or log.is_appending or not log.flush_state.has_written(log.leader_epoch_cache):
        return NOTHING_DELETED
    try:
        paths = log.local.delete_first(count)
        log.producers.remove_snapshots_before(log.segments[0].base_offset)
    except OSError as problem:
        raise upkeep_failure(problem, log.directory) from problem
    return DeletedSegments(paths, count, "local retention")


def begin_behind_remote(directory: LogDirectory, log: UnifiedLog, start: RemoteStart, *, now_ms: int) -> None:
    """Drop all that is on the disk; the log goes on from where `start` says. Blocks for some syncs. Raises
    StorageError, CorruptData.

    What the remote tier is read by is durable first. A crash in between leaves the old records: they are a part of the
    leader's log, so the new epochs are true of them, too.
    """
    assert not log.is_appending
    assert start.log_start_offset <= start.offset
    checkpoint_before_truncation(directory, log, min(start.log_start_offset, log.log_start_offset))
    epochs = LeaderEpochCache(entry for entry in start.leader_epochs if entry[1] < start.offset)
    epochs.truncate_from_start(start.log_start_offset)
    epochs.version += log.leader_epoch_cache.version + 1  # Never taken for what is on the disk.
    try:
        if not log.local.files_exist:
            log.local.make_files()
        log.flush_state.write_epochs(epochs)
        log.producers.restart_from(start.offset, start.producer_snapshot, now_ms)
        log.truncations += 1
        log.flush_state.closed_at = NOT_CLOSED
        log.local.start_afresh(start.offset, now_ms)
    except OSError as problem:
        raise StorageError(f"{log.directory}: {problem}") from problem
    log.leader_epoch_cache = epochs
    log.log_end_offset = start.offset
    log.flush_state.truncated_to(start.offset)
    log.log_start_offset = start.log_start_offset
    log.update_high_watermark(start.offset)
    directory.recovery_checkpoints().run()
