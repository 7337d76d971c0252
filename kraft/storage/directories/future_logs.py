"""Logs that are being moved to another log directory (KIP-113): the files of a move, the replacement of the original by
its copy, and recovery after a crash.

A log is not compacted while it is copied. Otherwise the copy could have an old value or the records of an aborted
transaction, and never receive the tombstone or marker that ends them.

The copy is in `<topic>-<n>.<32 hex digits>-future`. When it is complete, the original is durably renamed to `-delete`
with the same digits, and then the copy to `<topic>-<n>`. If a start finds both names of a pair, it completes these
renames. A copy without its pair is incomplete. It is loaded as any log is, and copying continues from the offset up to
which it has the same leader epochs as the original. It is discarded if its directory was offline while the original was
used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from kraft.common.errors import StorageError
from kraft.common.ids import TopicPartition
from kraft.storage.deletion import DelayedDeletions
from kraft.storage.directories.log_directory import LogDirectory, prepare_new_log
from kraft.storage.file_cache import FileCache
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.log_files import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    directory_name,
    is_marked_directory,
    marked_directory_name,
    parse_directory_name,
)
from kraft.storage.storage_failure import refuse_if_passing
from kraft.storage.truncation import truncate_to
from kraft.storage.unified_log import UnifiedLog

UNIQUE_DIGITS = 32


class PromotionFailed(StorageError):
    """Raised when a copy could not replace its original because of a failure on the disks of `directories`. `is_open`:
    the next start decides which of the two is valid."""

    def __init__(self, message: str, directories: Collection[LogDirectory], is_open: bool) -> None:
        super().__init__(message)
        self.directories = directories
        self.is_open = is_open


class InterruptedMove(NamedTuple):
    """A replica that was moving to `directory` when the last run ended. `copy` is the path of the incomplete copy; once
    loaded it is a future log of that directory."""

    directory: LogDirectory
    copy: str


class FutureLogs:
    """The copies (future logs) in all log directories of a broker. Part of `LogManager`, which passes in the shared
    state.

    A copy is listed in `futures` of its log directory.
    """

    def __init__(
        self,
        cache: FileCache,
        directories: Sequence[LogDirectory],
        deletions: DelayedDeletions,
        *,
        new_uuid: Callable[[], bytes],
        put: Callable[[LogDirectory, UnifiedLog], object],
        directory_failed: Callable[[str, str], object],
    ) -> None:
        """`put(directory, log)` makes `log` the log of its partition. `directory_failed(path, why)` takes a log
        directory offline."""
        self._files = cache.files
        self._cache = cache
        self._directories = directories
        self._deletions = deletions
        self._new_uuid = new_uuid
        self._put = put
        self._directory_failed = directory_failed
        self.interrupted_moves: dict[TopicPartition, InterruptedMove] = {}
        """Moves found by `finish_moves`, until they are finished or given up."""

    def create(self, log: UnifiedLog, directory: LogDirectory, *, now_ms: int) -> UnifiedLog:
        """Create an empty copy of `log` in another directory. Raises StorageError if the topic's name is too long for
        the copy's directory name."""
        topic_partition = log.topic_partition
        name = marked_directory_name(topic_partition, self._new_uuid(), FUTURE_DIRECTORY_SUFFIX)
        if not name.startswith(f"{directory_name(topic_partition)}."):
            raise StorageError(f"{topic_partition}: the topic name is too long for a move between log directories")
        prepare_new_log(directory, topic_partition, self._directories)
        future = UnifiedLog(
            self._cache,
            directory.file(name),
            topic_partition,
            log.config,
            topic_id=log.topic_id,
            now_ms=now_ms,
            producer_expiration_ms=log.producer_expiration_ms,
        )
        directory.futures[topic_partition] = future
        return future

    def has_copy(self, topic_partition: TopicPartition) -> bool:
        """Whether the log is being copied, or will be once its partition is assigned to this broker."""
        return any(topic_partition in directory.futures for directory in self._directories)

    def resume(self, log: UnifiedLog, directory: LogDirectory, *, now_ms: int) -> UnifiedLog | None:
        """Return the copy that the last run left in `directory`, truncated to where it agrees with `log`, or None if
        nothing of it can be used. Raises StorageError.

        A leader writes an offset once in an epoch. So if the epochs of the last record agree, all earlier records do.
        """
        future = directory.futures.get(log.topic_partition)
        if future is None:
            return None
        agreed = agreed_end(
            log.leader_epoch_cache.entries, log.log_end_offset, future.leader_epoch_cache.entries, future.log_end_offset
        )
        is_of_use = agreed > max(future.log_start_offset, log.local_log_start_offset) and future.damage is None
        if not is_of_use or future.topic_id != log.topic_id:
            self.discard(future, now_ms=now_ms)
            return None
        truncate_to(directory, future, agreed, now_ms=now_ms)
        future.config = log.config
        return future

    def promote(
        self, log: UnifiedLog, future: UnifiedLog, source: LogDirectory, target: LogDirectory, *, now_ms: int
    ) -> None:
        """Replace `log` by its copy `future`, which has all of its records. Blocks for two syncs.

        Raises PromotionFailed or StorageError with everything unchanged, unless PromotionFailed has `is_open`: then the
        renames could not be undone.

        State beside the records is carried over: epochs without records, the high watermark, the log start offset,
        producers whose records are deleted, and pending verifications.
        """
        epochs = LeaderEpochCache(log.leader_epoch_cache.entries)
        epochs.version += future.leader_epoch_cache.version + 1  # Never taken for what is on disk.
        future.leader_epoch_cache = epochs
        future.update_high_watermark(log.high_watermark)
        future.follow_log_start(log.log_start_offset)
        if log.config.remote_storage_enable:
            future.log_start_offset = log.log_start_offset  # The remote tier has what is before the copy.
        prepare_new_log(target, log.topic_partition, self._directories)
        self._exchange_names(log, future, source, target, now_ms)
        future.producers.take_over(log.producers)
        source.leaves(log.topic_partition)
        target.futures.pop(log.topic_partition, None)
        self._put(target, future)

    def _exchange_names(
        self, log: UnifiedLog, future: UnifiedLog, source: LogDirectory, target: LogDirectory, now_ms: int
    ) -> None:
        before, copied, name, failing = log.directory, future.directory, directory_name(log.topic_partition), source
        retired = source.file(
            future.directory.rpartition("/")[2].removesuffix(FUTURE_DIRECTORY_SUFFIX) + DELETE_DIRECTORY_SUFFIX
        )
        try:
            if log.local.files_exist:
                _rename(log, retired)
                self._files.sync_directory(source.path)
            failing = target
            _rename(future, target.file(name))
            if future.local.files_exist:
                self._files.sync_directory(target.path)
        except OSError as problem:
            future_is_back, log_is_back = _named(future, copied), _named(log, before)
            is_known = failing is source or _remembers(source, target)
            what = f"{log.topic_partition} cannot move to {target.path}"
            if future_is_back and log_is_back:
                refuse_if_passing(problem, what)
            failed = [failing] if failing is source or (log_is_back and is_known) else [target, source]
            raise PromotionFailed(f"{what}: {problem}", failed, not (future_is_back and log_is_back)) from problem
        if log.local.files_exist:
            self._deletions.add([retired], now_ms + log.config.file_delete_delay_ms)

    def discard(self, future: UnifiedLog, *, now_ms: int) -> None:
        """Drop a copy that is no longer wanted. Its files are removed with the next deletions."""
        future.local.forget_files()
        for directory in self._directories:
            if directory.futures.get(future.topic_partition) is future:
                directory.future_leaves(future.topic_partition)
        if future.local.files_exist:
            self._deletions.add([future.directory], now_ms)

    def finish_moves(self, now_ms: int) -> None:
        """Finish interrupted moves at a start, before logs are loaded. A failing disk takes its directory offline."""
        names: list[tuple[LogDirectory, str]] = []
        for directory in self._directories:
            if directory.is_online:
                try:
                    names += [(directory, name) for name in self._files.list_directory(directory.path)]
                except OSError as problem:
                    self._directory_failed(directory.path, str(problem))
        retired = {
            name.removesuffix(DELETE_DIRECTORY_SUFFIX): None
            for _, name in names
            if is_marked_directory(name, DELETE_DIRECTORY_SUFFIX)
        }
        for directory, name in names:
            if directory.is_online and is_marked_directory(name, FUTURE_DIRECTORY_SUFFIX):
                try:
                    self._finish_move(
                        directory,
                        name,
                        is_complete=name.removesuffix(FUTURE_DIRECTORY_SUFFIX) in retired,
                        now_ms=now_ms,
                    )
                except OSError as problem:
                    self._directory_failed(directory.path, str(problem))

    def _was_away(self, directory: LogDirectory) -> bool:
        """Whether logs of another directory were used while this one was offline. Raises OSError."""
        return any(directory.path in other.absent.paths() for other in self._directories if other.is_online)

    def _finish_move(self, directory: LogDirectory, name: str, *, is_complete: bool, now_ms: int) -> None:
        original = name[: -len(FUTURE_DIRECTORY_SUFFIX) - UNIQUE_DIGITS - 1]
        topic_partition = parse_directory_name(original)
        if topic_partition is not None and is_complete and not self._files.exists(directory.file(original)):
            self._files.rename(directory.file(name), directory.file(original))
            self._files.sync_directory(directory.path)
            return
        # One that was given up, and was to be deleted.
        if topic_partition is None or topic_partition in self.interrupted_moves or self._was_away(directory):
            self._deletions.add([directory.file(name)], now_ms)
            return
        self.interrupted_moves[topic_partition] = InterruptedMove(directory, directory.file(name))

    def interrupted_in(self, directory: LogDirectory) -> list[tuple[TopicPartition, str]]:
        """The copies in this directory that `finish_moves` found to continue, with their paths."""
        return [
            (topic_partition, move.copy)
            for topic_partition, move in self.interrupted_moves.items()
            if move.directory is directory
        ]

    def forget_interrupted(self, topic_partition: TopicPartition, *, now_ms: int) -> None:
        """Discard the incomplete copy of a replica that is no longer assigned to this broker."""
        move = self.interrupted_moves.pop(topic_partition, None)
        future = None if move is None else move.directory.futures.get(topic_partition)
        if future is not None:
            self.discard(future, now_ms=now_ms)


def agreed_end(log: Sequence[tuple[int, int]], log_end: int, future: Sequence[tuple[int, int]], future_end: int) -> int:
    """One past the last offset that both logs have with the same leader epoch; 0 if there is none. Epochs are (epoch,
    start offset), ascending."""
    theirs = dict(_spans(log, log_end))
    for epoch, (start, end) in reversed(_spans(future, future_end)):
        if epoch in theirs and min(end, theirs[epoch][1]) > max(start, theirs[epoch][0]):
            return min(end, theirs[epoch][1])
    return 0


def _spans(epochs: Sequence[tuple[int, int]], log_end: int) -> list[tuple[int, tuple[int, int]]]:
    """Each epoch with the offsets that it wrote, the end exclusive."""
    ends = [*(start for _, start in epochs[1:]), log_end]
    return [(epoch, (start, end)) for (epoch, start), end in zip(epochs, ends, strict=True)] if epochs else []


def _rename(log: UnifiedLog, directory: str) -> None:
    log.local.rename_directory(directory)
    log.producers.directory_renamed(directory)


def _named(log: UnifiedLog, directory: str) -> bool:
    """Make sure that the log has its original directory name. Return False if it could not be renamed back."""
    if log.directory != directory:
        try:
            _rename(log, directory)
        except OSError:
            return False
        log.local.unsynced_directory = log.local.files_exist
    return True


def _remembers(source: LogDirectory, target: LogDirectory) -> bool:
    """Durably record in `source` that a log of the same name in `target` is stale. Return whether that succeeded."""
    try:
        source.absent.add([target.path])
    except OSError:
        return False
    return True
