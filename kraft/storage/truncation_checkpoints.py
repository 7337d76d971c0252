"""What the disk must not say of a log any more when it is truncated, because loading believes it: durable before the
log is touched."""

from __future__ import annotations

from kraft.common.errors import StorageError
from kraft.storage.log_directory import LogDirectory
from kraft.storage.unified_log import UnifiedLog


def checkpoint_before_truncation(directory: LogDirectory, log: UnifiedLog, offset: int) -> None:
    """A recovery point beyond the truncation must not survive it: loading would trust what lies below. Nor must a
    log start: whatever is appended up to it would count as deleted. Blocks for some syncs where the disk may have
    one. Raises StorageError, the log as it was."""
    log.lower_recovery_point(offset)
    start = log.log_start_offset
    log.log_start_offset = min(start, offset)
    try:
        if log.local.files_exist:
            directory.no_recovery_point_beyond(log.topic_partition, offset, start_falls=offset < start)
    except StorageError:
        log.log_start_offset = start
        raise
