"""Truncates a log so that no crash brings truncated records back.

Loading trusts the checkpoints, so they must not claim more than the truncated log has. They are lowered durably before
the log is touched.
"""

from __future__ import annotations

from kraft.common.errors import StorageError
from kraft.storage.directories.log_directory import LogDirectory
from kraft.storage.unified_log import UnifiedLog


def truncate_to(directory: LogDirectory, log: UnifiedLog, offset: int, *, now_ms: int) -> bool:
    """Drop all records from `offset` on, durably; False if there are none. Blocks for some syncs. Raises
    StorageError."""
    if offset >= log.log_end_offset:
        return False
    checkpoint_before_truncation(directory, log, offset)
    start, epochs = log.log_start_offset, log.leader_epoch_cache.entries
    try:
        changed = log.truncate_to(offset, now_ms)
        if start < log.log_start_offset and log.config.remote_storage_enable:
            # Nothing is left on the disk: the rest of the log is in the remote tier.
            log.log_start_offset = start
            for epoch, start_offset in epochs:
                if start_offset < offset:
                    log.leader_epoch_cache.assign(epoch, start_offset)
            log.flush_state.write_epochs(log.leader_epoch_cache)
        return changed
    except OSError as problem:
        raise StorageError(f"{log.directory}: {problem}") from problem


def truncate_fully_and_start_at(directory: LogDirectory, log: UnifiedLog, offset: int, *, now_ms: int) -> None:
    """Empty the log and start it at `offset`. Blocks for some syncs. Raises StorageError."""
    checkpoint_before_truncation(directory, log, min(offset, log.log_start_offset))
    try:
        log.truncate_fully_and_start_at(offset, now_ms)
    except OSError as problem:
        raise StorageError(f"{log.directory}: {problem}") from problem


def checkpoint_before_truncation(directory: LogDirectory, log: UnifiedLog, offset: int) -> None:
    """Lower the recovery point and log start offset on disk to `offset`. Blocks for some syncs if the disk may have
    higher ones. Raises StorageError with the log unchanged.

    Loading trusts everything below the recovery point, and treats everything below the log start as deleted. Stale
    values would apply to records appended after the truncation.
    """
    log.flush_state.truncated_to(offset)
    start = log.log_start_offset
    log.log_start_offset = min(start, offset)
    try:
        if log.local.files_exist:
            directory.no_recovery_point_beyond(log.topic_partition, offset, start_falls=offset < start)
    except StorageError:
        log.log_start_offset = start
        raise
