"""Chooses which log the cleaner takes next, and remembers how far each is clean (`cleaner-offset-checkpoint`, one in each log directory)."""

from __future__ import annotations

from functools import partial

from kraft.common.errors import CorruptData
from kraft.common.ids import TopicPartition
from kraft.storage.checkpoints import read_offset_checkpoint, write_offset_checkpoint
from kraft.storage.log_cleaner import DEFAULT_MAP_BYTES, Cleaning, Uncleanable
from kraft.storage.log_directory import LogDirectory
from kraft.storage.log_files import CLEANER_CHECKPOINT
from kraft.storage.log_manager import LogManager
from kraft.storage.log_to_clean import LogToClean, log_to_clean
from kraft.storage.steps import Steps
from kraft.storage.storage_failure import upkeep_failure


class LogCleanerManager:
    """The caller loops: `next_log`, then `clean` to its end in slices, else wait log.cleaner.backoff.ms. `uncleanable` says why a log is left alone."""

    def __init__(self, manager: LogManager, *, map_bytes_max: int = DEFAULT_MAP_BYTES) -> None:
        self._manager = manager
        self._map_bytes_max = map_bytes_max
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        self.uncleanable: dict[TopicPartition, str] = {}

    def next_log(self, now_ms: int) -> LogToClean | None:
        """The dirtiest log that is due; None when none is. Raises StorageError."""
        best: LogToClean | None = None
        for directory in self._manager.online():
            checkpoints = self._checkpoints_of(directory)
            for topic_partition, log in directory.logs.items():
                if log.config.compact and len(log.segments) > 1 and topic_partition not in self.uncleanable:
                    candidate = log_to_clean(log, checkpoints.get(topic_partition), now_ms)
                    if candidate.is_due and (best is None or candidate.dirty_ratio > best.dirty_ratio):
                        best = candidate
        return best

    def clean(self, candidate: LogToClean, now_ms: int) -> Steps[None]:
        """One cleaning, in steps of some dozen records. Raises CleaningAborted, Uncleanable (the log is then left alone), StorageError."""
        log = candidate.log
        directory = self._manager.directory_of(log)
        cleaning = Cleaning(candidate, now_ms=now_ms, map_bytes_max=self._map_bytes_max)
        try:
            yield from _checkpoint(directory)  # Cleaning leaves gaps: after a crash one beyond the recovery point would count as a lost segment.
            yield from cleaning.run()
        except Uncleanable as problem:
            self.uncleanable[log.topic_partition] = str(problem)
            raise
        except OSError as problem:
            raise upkeep_failure(problem, f"cleaning {log.directory}") from problem
        finally:
            self._manager.deletions.add(cleaning.stats.replaced, now_ms + log.config.file_delete_delay_ms)
        yield from self._remember(directory, log.topic_partition, cleaning.stats.end_offset)

    def _checkpoints_of(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        found = self._checkpoints.get(directory.path)
        if found is None:
            try:
                found = read_offset_checkpoint(self._manager.files, directory.file(CLEANER_CHECKPOINT))
            except CorruptData:
                found = {}  # Cleaning from a log's start again costs time, nothing else.
            self._checkpoints[directory.path] = found
        return found

    def _remember(self, directory: LogDirectory, topic_partition: TopicPartition, end_offset: int) -> Steps[None]:
        checkpoints = self._checkpoints_of(directory)
        checkpoints[topic_partition] = end_offset
        known = {known: offset for known, offset in checkpoints.items() if known in directory.logs}
        self._checkpoints[directory.path] = known
        try:
            yield partial(write_offset_checkpoint, self._manager.files, directory.file(CLEANER_CHECKPOINT), dict(known))
        except OSError as problem:
            raise upkeep_failure(problem, directory.path) from problem

    def truncated(self, topic_partition: TopicPartition, offset: int) -> None:
        """A log was truncated to `offset`: what was clean beyond is gone."""
        for checkpoints in self._checkpoints.values():
            if checkpoints.get(topic_partition, -1) > offset:
                checkpoints[topic_partition] = offset


def _checkpoint(directory: LogDirectory) -> Steps[None]:
    """Recovery points as they are now, durable when it ends, whatever job is under way. Raises StorageError."""
    directory.checkpoint_missed()  # A job under way has promised what is not on the disk yet.
    job = directory.recovery_checkpoints()
    yield job.prepare
    job.put_in_place()
    if job.is_newest:
        yield job.finish
    else:  # Another came meanwhile, and may be under way itself.
        directory.checkpoint_missed()
        directory.recovery_checkpoints().run()
