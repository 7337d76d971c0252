"""Selects the next log to clean, and stores the clean offset of each log in its log directory
(`cleaner-offset-checkpoint`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kraft.common.errors import StorageError
from kraft.common.ids import TopicPartition
from kraft.storage.cleaner.cleaning_order import CleanerLimits
from kraft.storage.cleaner.log_cleaner import CleanerStats, Cleaning, Uncleanable
from kraft.storage.cleaner.log_to_clean import LogToClean, log_to_clean
from kraft.storage.directories.log_directory import LogDirectory, remember_absent
from kraft.storage.log_manager import LogManager
from kraft.storage.storage_failure import upkeep_failure
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import Steps


class LeftAlone(NamedTuple):
    """A log that cannot be cleaned in its current state, and is skipped until `until_ms`. A recreated log of the same
    name, or the log after a truncation, may be cleaned."""

    log: UnifiedLog
    truncations: int
    why: str
    until_ms: int

    def still_holds(self, now_ms: int) -> bool:
        return self.log.truncations == self.truncations and now_ms < self.until_ms


def _raise(_: LogDirectory, problem: StorageError) -> None:
    raise problem


class LogCleanerManager:
    """Schedules cleanings. The caller loops: `next_log`, then runs `clean` to its end in steps; without a log to clean
    it waits for log.cleaner.backoff.ms. `uncleanable` holds why a log is skipped for now. Several logs may be cleaned
    concurrently."""

    def __init__(
        self,
        manager: LogManager,
        limits: Callable[[], CleanerLimits] = CleanerLimits,
        all_in_sync: Callable[[TopicPartition], bool] = lambda _: True,
    ) -> None:
        """`all_in_sync` returns whether every replica of a partition has all committed records. If not, tombstones and
        markers are kept."""
        self._manager = manager
        self._all_in_sync = all_in_sync
        self._limits = limits
        self._in_progress: set[TopicPartition] = set()
        self.uncleanable: dict[TopicPartition, LeftAlone] = {}

    def next_log(
        self, now_ms: int, on_failure: Callable[[LogDirectory, StorageError], None] = _raise
    ) -> LogToClean | None:
        """Return the dirtiest log that is due, or None. `on_failure` is called for a directory whose logs cannot be
        read; its logs are skipped."""
        self.uncleanable = {
            name: left
            for name, left in self.uncleanable.items()
            if left.still_holds(now_ms) and self._manager.get(name) is left.log
        }
        due: list[LogToClean] = []
        for directory in self._manager.online():
            try:
                due += self._due_in(directory, now_ms)
            except OSError as problem:
                on_failure(directory, upkeep_failure(problem, f"{directory.path}: looking for logs to clean"))
            except StorageError as problem:
                on_failure(directory, problem)
        return max(due, key=lambda candidate: candidate.dirty_ratio, default=None)

    def _due_in(self, directory: LogDirectory, now_ms: int) -> list[LogToClean]:
        candidates = [
            log_to_clean(log, directory.clean_offsets.get(topic_partition), now_ms)
            for topic_partition, log in directory.logs.items()
            if log.config.compact
            and len(log.segments) > 1
            and topic_partition not in self.uncleanable
            and topic_partition not in self._in_progress
            and not self._manager.futures.has_copy(topic_partition)
        ]
        return [candidate for candidate in candidates if candidate.is_due]

    def clean(self, candidate: LogToClean, now_ms: int) -> Steps[CleanerStats]:
        """Run one cleaning. From its first step on the log is not due. Raises CleaningAborted, StorageError, or
        Uncleanable, after which the log is skipped for a while."""
        self._in_progress.add(candidate.log.topic_partition)
        try:
            return (yield from self._clean(candidate, now_ms))
        finally:
            self._in_progress.discard(candidate.log.topic_partition)

    def _clean(self, candidate: LogToClean, now_ms: int) -> Steps[CleanerStats]:
        log = candidate.log
        directory = self._manager.directory_of(log)
        keeps_ends = not self._all_in_sync(log.topic_partition)
        cleaning = Cleaning(candidate, now_ms=now_ms, limits=self._limits(), keeps_ends=keeps_ends)
        try:
            if len(self._manager.online()) < len(self._manager.directories):
                # A copy that lies there is not to go on: it would never see what this cleaning removes.
                yield partial(remember_absent, directory, self._manager.directories)
            # Cleaning leaves gaps: after a crash one beyond the recovery point would count as a lost segment.
            yield from _checkpoint(directory)
            yield from cleaning.run()
        except Uncleanable as problem:
            self.uncleanable[log.topic_partition] = LeftAlone(
                log, log.truncations, str(problem), now_ms + problem.retry_ms
            )
            raise
        except OSError as problem:
            raise upkeep_failure(problem, f"cleaning {log.directory}") from problem
        finally:
            self._manager.deletions.add(cleaning.stats.replaced, now_ms + log.config.file_delete_delay_ms)
        remember = directory.cleaned(log.topic_partition, cleaning.stats.end_offset)
        yield remember.prepare
        remember.put_in_place()
        yield remember.finish
        return cleaning.stats


def _checkpoint(directory: LogDirectory) -> Steps[None]:
    """Write the current recovery points durably, even while another checkpoint job is in progress. Raises
    StorageError."""
    directory.checkpoint_missed()  # A job under way has promised what is not on the disk yet.
    job = directory.recovery_checkpoints()
    yield job.prepare
    job.put_in_place()
    if job.is_newest:
        yield job.finish
    else:  # Another came meanwhile, and may be under way itself.
        directory.checkpoint_missed()
        directory.recovery_checkpoints().run()
