"""Operations on a log whose older part is only in the remote tier (KIP-405): removing local segments, and starting a
replica behind the remote data.

Such a log starts where its records start, in either tier, and its leader epochs reach back to there: remote data is
looked up by epoch. The batches that carried the epochs may be gone from the disk, so the epochs are made durable first.
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
    """The offset at which a replica starts when its earlier records are in the remote tier, with the state as of that
    offset. `leader_epochs` and `producer_snapshot` are as of `offset`."""

    log_start_offset: int
    offset: int
    leader_epochs: Sequence[tuple[int, int]]
    producer_snapshot: bytes


def lacking_snapshots(log: UnifiedLog) -> list[int]:
    """Base offsets of segments without a producer snapshot. A roll writes one, but a power loss may have removed it,
    and none is written while the log has no producers."""
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
    """Durably write the producer state as of `offset`, a segment start, rebuilt from local segments. Once the earlier
    segments are only in the remote tier, no other local data has the transactions open at `offset`; recovery would lose
    their aborts.

    Writes nothing if the log was truncated meanwhile. Raises OSError, CorruptData.
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
    """Make the snapshot at `offset` durable. May block. Raises OSError."""
    path = log.producers.path_of(offset)
    file = log.local.cache.files.open(path)
    try:
        file.sync()
    finally:
        file.close()


def close_to_expire(log: UnifiedLog, now_ms: int) -> None:
    """Roll the active segment if it is the only local one and is due to leave the disk. Raises OSError."""
    if not log.is_appending and must_close_to_expire(
        log.segments,
        log.config,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        now_ms=now_ms,
    ):
        log.roll(now_ms)


def delete_local_segments(log: UnifiedLog, count: int) -> DeletedSegments:
    """Remove the `count` oldest segments from the disk; the log start offset stays. The caller ensures that the remote
    tier has all of them, and removes their files later. Does nothing while the leader epochs are not durable, an append
    is in progress, or the remaining segments lack a producer snapshot (`make_snapshot`). Raises StorageError."""
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
    """Drop all local data and continue the log at `start`. Blocks for some syncs. Raises StorageError, CorruptData.

    The state needed to read the remote tier is made durable first. A crash in between leaves the old records, which are
    a prefix of the leader's log, so the new epochs are valid for them too.
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
