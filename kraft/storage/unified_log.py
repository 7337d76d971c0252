"""The log of one partition: ordered batches, the offsets that bound what may be read, and the state that follows
from them.

Files and segments are `local_log`'s business; `log_state` says what a log is, `log_appender` how it grows; here are
opening, shrinking, flushing and closing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraft.common.errors import ApiError, CorruptData
from kraft.common.ids import TopicPartition, Uuid
from kraft.protocol.error_codes import ErrorCode
from kraft.storage.checkpoints import read_partition_metadata, replace_file
from kraft.storage.file_cache import FileCache
from kraft.storage.loaded_log import LoadedLog
from kraft.storage.log_appender import LogAppender
from kraft.storage.log_config import LogConfig
from kraft.storage.log_files import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from kraft.storage.log_flush import FlushJob
from kraft.storage.log_loader import LogLoader
from kraft.storage.log_state import NEVER_WRITTEN, UNKNOWN_VERSION
from kraft.storage.producer_rebuild import rebuild_producers
from kraft.storage.producer_state_manager import PRODUCER_ID_EXPIRATION_MS
from kraft.storage.retention import deletable_segments, is_old_enough_to_roll
from kraft.storage.steps import Steps, run_here
from kraft.storage.storage_failure import upkeep_failure
from kraft.world.ports import FileSystem


class DeletedSegments:
    """Segments taken out of a log. `paths` are their files, to be removed after file.delete.delay.ms."""

    __slots__ = ("count", "paths", "reason")

    def __init__(self, paths: Sequence[str], count: int, reason: str) -> None:
        self.paths = paths
        self.count = count
        self.reason = reason


NOTHING_DELETED = DeletedSegments((), 0, "")


class UnifiedLog(LogAppender):
    """See the module. One task uses it; the jobs it prepares may run in threads."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        files: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: int,
        cache: FileCache | None = None,
        topic_id: Uuid | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean_shutdown: bool = False,
        producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        sync_directory: Callable[[str], None] | None = None,
    ) -> Steps[UnifiedLog]:
        """The log in `directory`, recovered where `clean_shutdown` is False; an empty one, without touching the
        disk, where there is no directory.

        Raises StorageError, OSError.
        """
        cache = FileCache(files) if cache is None else cache
        log = cls(cache, directory, topic_partition, config, topic_id=topic_id, now_ms=now_ms)
        log._producer_expiration_ms = producer_expiration_ms
        if files.exists(directory):
            loader = LogLoader(
                cache,
                directory,
                config,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                clean_shutdown=clean_shutdown,
                now_ms=now_ms,
                producer_expiration_ms=producer_expiration_ms,
                sync_directory=sync_directory,
            )
            log._adopt((yield from loader.load()))
            on_disk = log._read_topic_id()
            log.local.topic_id = on_disk or topic_id
            log.local.files_exist = on_disk is not None or topic_id is None
        return log

    def _read_topic_id(self) -> Uuid | None:
        """The id in partition.metadata; None where a power loss left the file unfinished (it is durable only from
        the first flush on)."""
        try:
            return read_partition_metadata(self.local.cache.files, self.local.path(PARTITION_METADATA))
        except CorruptData as problem:
            if self.load_report is not None:
                self.load_report.events.append(str(problem))
            return None

    def _adopt(self, loaded: LoadedLog) -> None:
        self.local.segments = loaded.segments
        self.log_start_offset = self.high_watermark = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.leader_epoch_cache = loaded.epochs
        self._epochs_written = (
            (loaded.epochs.version if loaded.clean else UNKNOWN_VERSION) if loaded.epochs_on_disk else NEVER_WRITTEN
        )
        self._index_synced_at = loaded.log_end_offset if loaded.clean else -1
        # A process that was killed may have left all of it unsynced.
        self.local.unsynced_names = self.local.unsynced_directory = not loaded.clean
        self.load_report = loaded.report
        if loaded.producers.producers or loaded.producers.snapshots:
            self._producers = loaded.producers

    # Segments come and go

    def roll_if_old(self, now_ms: int) -> bool:
        """Roll a segment that is past segment.ms although nothing is appended, so that compaction and retention can
        reach its records."""
        active = self.active_segment
        if self._pending is not None or not active.size or not is_old_enough_to_roll(active, self.config, -1, now_ms):
            return False
        self.roll(now_ms)
        return True

    def delete_old_segments(self, now_ms: int) -> DeletedSegments:
        """Take what retention allows out of the log, by time, size or log start. Files to remove after
        file.delete.delay.ms, and why. Raises OSError."""
        if self._pending is not None:
            return NOTHING_DELETED
        count, reason = deletable_segments(
            self.segments,
            self.config,
            high_watermark=self.high_watermark,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            now_ms=now_ms,
        )
        if not count:
            return NOTHING_DELETED
        if count == len(self.segments):
            self.roll(now_ms)
        paths = self.local.delete_first(count)
        self._advance_log_start(self.segments[0].base_offset)
        if self._producers is not None:
            for offset in [offset for offset in self._producers.snapshots if offset < self.segments[0].base_offset]:
                self._producers.remove_snapshot(offset)
        return DeletedSegments(paths, count, reason)

    def delete_records_before(self, offset: int) -> int:
        """Advance the log start (DeleteRecords); the new log start.

        Segments go at the next retention. Raises ApiError OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if offset > self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: cannot delete up to {offset}, the high watermark is {self.high_watermark}",
            )
        self._advance_log_start(offset)
        return self.log_start_offset

    def follow_log_start(self, leader_log_start_offset: int) -> None:
        """A follower's log starts where the leader's does, as far as it has got."""
        self._advance_log_start(min(leader_log_start_offset, self.high_watermark))

    def _advance_log_start(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self._index_synced_at = -1
        self.high_watermark = max(self.high_watermark, offset)
        self.leader_epoch_cache.truncate_from_start(offset)
        if self._producers is not None:
            self._producers.log_start_incremented(offset)

    def lower_recovery_point(self, offset: int) -> None:
        """Before a truncation to `offset`, and checkpointed before it begins: what a crash leaves of it is then read
        with care."""
        self.recovery_point = min(self.recovery_point, offset)

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drop everything from `offset` on; False when there is nothing there. `LogManager.truncate_to` sees to the
        recovery point first. Raises OSError."""
        assert self._pending is None, "a truncation in the middle of an append"
        if offset >= self.log_end_offset:
            return False
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        self.truncations += 1
        self._index_synced_at = -1
        self.local.truncate_to(offset)
        self.leader_epoch_cache.truncate_from_end(offset)
        self._ends_at(offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        if self._producers is not None:
            run_here(rebuild_producers(self._producers, self.segments, self.log_start_offset, offset, now_ms, _ignore))
        self._write_epochs()
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, log_start_offset: int | None = None) -> None:
        """Drop everything; the log is empty and starts (and ends) at `offset`. Raises OSError."""
        assert self._pending is None, "a truncation in the middle of an append"
        self.truncations += 1
        self._index_synced_at = -1
        self.local.start_afresh(offset, now_ms)
        self.leader_epoch_cache.clear()
        if self._producers is not None:
            self._producers.reset(offset)
        self.log_end_offset = offset
        self.log_start_offset = self.high_watermark = offset if log_start_offset is None else log_start_offset
        self.recovery_point = min(self.recovery_point, offset)
        self._write_epochs()

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)

    # Durability

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    @property
    def recovery_point_to_keep(self) -> int:
        """The recovery point as checkpoints have it: one less while all of a growing segment is flushed, because its
        indexes are not.

        Should the segment be closed and the power fail, loading then reads it, instead of trusting an index that was
        never made durable.
        """
        is_flushed_and_growing = self.recovery_point == self.log_end_offset and self.active_segment.size
        return self.recovery_point - 1 if is_flushed_and_growing else self.recovery_point

    def flush_is_due(self, now_ms: int) -> bool:
        """By flush.messages or flush.ms."""
        unflushed = self.log_end_offset - self.recovery_point
        return unflushed >= self.config.flush_messages or (
            unflushed > 0 and now_ms - self.last_flush_ms >= self.config.flush_ms
        )

    def flush(self, up_to: int | None = None, *, now_ms: int | None = None) -> None:
        """Make everything below `up_to` (the log's end without) durable; blocks. Raises StorageError, never to be
        tried again."""
        job = self.prepare_flush(up_to)
        if job is not None:
            job.run()
            self.finish_flush(job, now_ms)

    def prepare_flush(self, up_to: int | None = None, *, closing: bool = False) -> FlushJob | None:
        """First step of `flush`; None when it is durable already. Raises StorageError."""
        up_to = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        local, epochs = self.local, self.leader_epoch_cache
        writes_epochs = epochs.version != self._epochs_written and not (closing and self._is_small)
        if not local.files_exist or (
            up_to <= self.recovery_point and not (closing or local.unsynced_names or writes_epochs)
        ):
            return None
        directories = [local.directory] if local.unsynced_names else []
        if local.unsynced_directory:
            directories.append(local.directory.rpartition("/")[0])
        try:
            opened = local.files_to_sync(self.recovery_point, up_to, closing=closing and not self._is_small)
        except OSError as problem:
            raise upkeep_failure(problem, f"flush of {self.directory}") from problem
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
            self.truncations,
        )

    @property
    def _is_small(self) -> bool:
        """One segment with nothing in its indexes: what indexes and epochs say is read back from a handful of
        headers faster than it is made durable."""
        return (
            len(self.segments) == 1
            and self.active_segment.indexes_say_nothing
            and self._epochs_written == NEVER_WRITTEN
        )

    def finish_flush(self, job: FlushJob, now_ms: int | None = None) -> None:
        """`job` has run: the recovery point moves, unless the log was truncated meanwhile."""
        self._epochs_under_way -= job.epochs is not None
        if job.generation != self.truncations:
            return
        self.recovery_point = max(self.recovery_point, job.up_to)
        if job.epochs is not None:
            self._epochs_written = job.epochs_version
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def _write_epochs(self) -> None:
        if self.local.files_exist:
            replace_file(
                self.local.cache.files,
                self.local.path(LEADER_EPOCH_CHECKPOINT),
                self.leader_epoch_cache.to_text().encode(),
            )
            # What is under way may come last.
            self._epochs_written = UNKNOWN_VERSION if self._epochs_under_way else self.leader_epoch_cache.version

    def prepare_close(self) -> FlushJob | None:
        """First step of `close`: indexes and producer state are written; None when there is nothing to sync. Raises
        OSError, StorageError."""
        assert self._pending is None, "a close in the middle of an append"
        if not self.local.files_exist or self._index_synced_at == self.log_end_offset:
            return None
        self.active_segment.make_log()
        if not self._is_small:
            self.active_segment.close_for_appends()
        if self._producers is not None:
            self._producers.take_snapshot(durable=True, even_if_empty=False)
        return self.prepare_flush(closing=True)

    def finish_close(self, job: FlushJob | None) -> None:
        """`job` has run: the log may be loaded as cleanly shut down. Lets go of the files."""
        if job is not None:
            self.finish_flush(job)
        self._index_synced_at = self.log_end_offset
        self.local.forget_files()

    def close(self) -> None:
        """Put everything on disk, durably, and let go of the files; blocks. Raises OSError, StorageError."""
        job = self.prepare_close()
        if job is not None:
            job.run()
        self.finish_close(job)


def _ignore(_: str) -> None:
    """An unreadable snapshot is skipped and removed; the log itself has what it said."""
