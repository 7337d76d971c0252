"""How much of a log is durable, and what a flush must do for the rest.

A flush takes three steps: `FlushState.prepare` lists what must become durable, `FlushJob.run` waits for the disk (in a
thread), `FlushState.finish` advances the recovery point.

A failed sync is never retried: the kernel may have dropped the dirty pages and would then report success. The log
directory goes offline instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import StorageError
from kraft.storage.checkpoints import replace_file
from kraft.storage.file_cache import OpenFile
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.local_log import LocalLog
from kraft.storage.log_config import LogConfig
from kraft.storage.log_files import LEADER_EPOCH_CHECKPOINT
from kraft.storage.storage_failure import upkeep_failure
from kraft.world.ports import FileSystem

EPOCHS_SUFFIX = ".flushed.tmp"
"""Suffix of the temporary file of a flush. A truncation uses another one, since both may run at the same time."""
NEVER_WRITTEN = 0
UNKNOWN_VERSION = -1
NOT_CLOSED = -1
CLOSED_FLUSH_MS = 1000
"""A closed segment is flushed when the log rolls. If that flush fails, the segment is flushed again after this time."""


class FlushJob:
    """Syncs files, then directories, then the leader-epoch checkpoint. Afterwards everything below `up_to` is durable.

    `generation` is the number of truncations when the job was prepared. A job prepared before a truncation is void
    after it. Segments that end at or before `indexed_up_to` were closed then; the job also syncs their indexes.
    """

    __slots__ = (
        "directories",
        "epochs",
        "epochs_path",
        "epochs_version",
        "files",
        "generation",
        "indexed_up_to",
        "opened",
        "up_to",
    )

    def __init__(
        self,
        files: FileSystem,
        up_to: int,
        opened: Sequence[OpenFile],
        epochs_path: str,
        epochs: bytes | None,
        epochs_version: int,
        directories: Sequence[str],
        generation: int,
        indexed_up_to: int = 0,
    ) -> None:
        self.files = files
        self.up_to = up_to
        self.indexed_up_to = indexed_up_to
        self.opened = opened
        self.epochs_path = epochs_path
        self.epochs = epochs
        self.epochs_version = epochs_version
        self.directories = directories
        self.generation = generation

    def run(self) -> None:
        """Run the job; blocks. Raises StorageError, and the caller must take the directory offline. On OutOfResources
        only the epochs were not written, and the directory stays online."""
        what = f"flush of {self.epochs_path.rpartition('/')[0]}"
        try:
            for opened in self.opened:
                opened.file.sync()
            for directory in self.directories:
                self.files.sync_directory(directory)
        except OSError as problem:
            raise StorageError(f"{what}: {problem}") from problem
        try:
            if self.epochs is not None:
                replace_file(self.files, self.epochs_path, self.epochs, suffix=EPOCHS_SUFFIX)
        except OSError as problem:
            raise upkeep_failure(problem, what) from problem


class FlushState:
    """The flush state of one log, whose files are `local`.

    `recovery_point` is an exclusive bound: everything below it is durable. Invariant: 0 <= recovery_point <= the log
    end offset.
    """

    __slots__ = (
        "_epochs_under_way",
        "_epochs_written",
        "_local",
        "closed_at",
        "indexed_up_to",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(self, local: LocalLog, now_ms: int) -> None:
        self._local = local
        self.recovery_point = 0
        self.last_flush_ms = now_ms
        self.closed_at = NOT_CLOSED
        """The log end offset at which the log was last closed in full, indexes included; NOT_CLOSED once the log has
        changed since."""
        self.indexed_up_to = 0
        """Segments that end at or before this offset have durable indexes."""
        self._epochs_written = NEVER_WRITTEN
        self._epochs_under_way = 0
        """Number of flushes in progress that write the leader epochs as of the start of the flush."""

    def loaded(
        self, recovery_point: int, log_end_offset: int, *, clean: bool, epochs_version: int, epochs_on_disk: bool
    ) -> None:
        """Set the state after the log was loaded. After an unclean shutdown nothing is known to be durable."""
        assert 0 <= recovery_point <= log_end_offset
        self.recovery_point = recovery_point
        self.indexed_up_to = min(recovery_point, self._local.active_segment.base_offset)
        self._epochs_written = (epochs_version if clean else UNKNOWN_VERSION) if epochs_on_disk else NEVER_WRITTEN
        self.closed_at = log_end_offset if clean else NOT_CLOSED
        self._local.unsynced_names = self._local.unsynced_directory = not clean

    def recovery_point_to_keep(self, log_end_offset: int) -> int:
        """The recovery point for the checkpoint file. It is one less than the flushed offset if all records of a
        segment are flushed but its indexes are not.

        After a power loss, loading then reads the segment instead of trusting an index that was never durable.
        """
        point, active = self.recovery_point, self._local.active_segment
        if point == log_end_offset and active.size:
            return point - 1
        ends_segment = point > self.indexed_up_to and any(
            segment.base_offset == point for segment in reversed(self._local.segments)
        )
        return point - 1 if ends_segment and point > self._local.segments[0].base_offset else point

    def is_due(self, log_end_offset: int, config: LogConfig, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms demands a flush, or a closed segment waits for one."""
        unflushed = log_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        closed_waits = self.recovery_point < self._local.active_segment.base_offset
        after_ms = min(config.flush_ms, CLOSED_FLUSH_MS) if closed_waits else config.flush_ms
        return unflushed >= config.flush_messages or now_ms - self.last_flush_ms >= after_ms

    def truncated_to(self, offset: int) -> None:
        """Lower the state to `offset`, where the log was truncated or is about to be."""
        self.recovery_point = min(self.recovery_point, offset)
        self.indexed_up_to = min(self.indexed_up_to, offset)

    @property
    def is_small(self) -> bool:
        """Whether the log is one segment with empty indexes. A start rebuilds its indexes and epochs from a few headers
        faster than a close could make them durable."""
        segments = self._local.segments
        return len(segments) == 1 and segments[-1].indexes_say_nothing and self._epochs_written == NEVER_WRITTEN

    def prepare(
        self, up_to: int, epochs: LeaderEpochCache, generation: int, *, closing: bool = False
    ) -> FlushJob | None:
        """Return the job that makes everything below `up_to` durable, or None if it already is. Raises StorageError."""
        local = self._local
        writes_epochs = epochs.version != self._epochs_written and not (closing and self.is_small)
        if not local.files_exist or (
            up_to <= self.recovery_point and not (closing or local.unsynced_names or writes_epochs)
        ):
            return None
        directories = [local.directory] if local.unsynced_names else []
        if local.unsynced_directory:
            directories.append(local.directory.rpartition("/")[0])
        try:
            opened = local.files_to_sync(self.recovery_point, up_to, closing=closing and not self.is_small)
        except OSError as problem:
            raise upkeep_failure(problem, f"flush of {local.directory}") from problem
        local.unsynced_names = local.unsynced_directory = False
        content = epochs.to_text().encode() if writes_epochs else None
        self._epochs_under_way += writes_epochs
        return FlushJob(
            local.cache.files,
            up_to,
            opened,
            local.path(LEADER_EPOCH_CHECKPOINT),
            content,
            epochs.version,
            directories,
            generation,
            max((segment.base_offset for segment in local.segments if segment.base_offset <= up_to), default=0),
        )

    def finish(self, job: FlushJob, generation: int, now_ms: int | None, log_end_offset: int) -> None:
        """Advance the recovery point after `job` has run, unless the log was truncated meanwhile."""
        self._epochs_under_way -= job.epochs is not None
        assert self._epochs_under_way >= 0
        if job.generation != generation:
            return
        assert job.up_to <= log_end_offset, f"{self._local.directory}: flushed to {job.up_to}, beyond {log_end_offset}"
        self.recovery_point = max(self.recovery_point, job.up_to)
        self.indexed_up_to = max(self.indexed_up_to, job.indexed_up_to)
        if job.epochs is not None:
            self._epochs_written = job.epochs_version
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def give_up(self, job: FlushJob) -> None:
        """Cancel a `job` that did not start: the next job must do its work."""
        self._epochs_under_way -= job.epochs is not None
        local = self._local
        local.unsynced_names = True
        local.unsynced_directory |= local.directory.rpartition("/")[0] in job.directories

    def closed(self, job: FlushJob | None, log_end_offset: int) -> None:
        """Record that the log was closed at its current end, flushed by `job`."""
        assert job is None or self.recovery_point == log_end_offset, f"{self._local.directory}: closed without a flush"
        self.closed_at = log_end_offset

    def has_written(self, epochs: LeaderEpochCache) -> bool:
        """Whether the leader-epoch checkpoint on disk durably equals `epochs`."""
        return self._epochs_written == epochs.version

    def write_epochs(self, epochs: LeaderEpochCache) -> None:
        """Replace the leader-epoch checkpoint now, durably. Raises OSError."""
        local = self._local
        if local.files_exist:
            replace_file(local.cache.files, local.path(LEADER_EPOCH_CHECKPOINT), epochs.to_text().encode())
            # A flush under way may overwrite it with older epochs.
            self._epochs_written = UNKNOWN_VERSION if self._epochs_under_way else epochs.version
