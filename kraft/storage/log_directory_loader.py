"""Loads what one log directory holds when a node starts: its logs, and the copies of logs that grow in it.

`log_loader` loads a single log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from kraft.common.ids import TopicPartition
from kraft.storage.file_cache import FileCache
from kraft.storage.log_config import LogConfig
from kraft.storage.log_directory import PREPARED, LogDirectory
from kraft.storage.log_files import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    directory_name,
)
from kraft.storage.steps import Steps
from kraft.storage.unified_log import UnifiedLog

# No partition's directory has such a name: those end in a dash and a number.
LEFT_OVER = re.compile(rf".+-checkpoint{re.escape(PREPARED)}(\.\d+)?")


class LogDirectoryLoader:
    """Loads one log directory, once."""

    def __init__(
        self,
        cache: FileCache,
        directory: LogDirectory,
        config_of: Callable[[str], LogConfig],
        producer_expiration_ms: int,
        on_event: Callable[[str, str], None],
        now_ms: int,
        sync_directory: Callable[[str], None] | None,
    ) -> None:
        """`sync_directory` as for `LogLoader`; `on_event` is told what each log had to mend: (place, sentence)."""
        self._cache = cache
        self._directory = directory
        self._config_of = config_of
        self._producer_expiration_ms = producer_expiration_ms
        self._on_event = on_event
        self._now_ms = now_ms
        self._sync_directory = sync_directory

    def load(
        self,
        found: Iterable[TopicPartition],
        copies: Iterable[tuple[TopicPartition, str]],
        adopt: Callable[[UnifiedLog], object],
    ) -> Steps[None]:
        """Open the logs that were found, and hand each to `adopt`; then the copies, which the directory gets itself.
        Raises OSError, StorageError."""
        directory = self._directory
        directory.take_clean_shutdown_mark()
        self._remove_left_over()
        recovery_points, starts = (
            self._checkpoint(RECOVERY_POINT_CHECKPOINT),
            self._checkpoint(LOG_START_OFFSET_CHECKPOINT),
        )
        high_watermarks = self._checkpoint(HIGH_WATERMARK_CHECKPOINT)
        for topic_partition in found:
            log = yield from self._open(
                directory.file(directory_name(topic_partition)), topic_partition, recovery_points, starts
            )
            log.update_high_watermark(high_watermarks.get(topic_partition, log.log_start_offset))
            adopt(log)
            yield None
        directory.restore_clean_offsets(
            self._checkpoint(CLEANER_CHECKPOINT), {**recovery_points, **starts, **high_watermarks}
        )
        for topic_partition, path in copies:
            directory.futures[topic_partition] = yield from self._open(path, topic_partition, recovery_points, starts)
            yield None

    def _remove_left_over(self) -> None:
        files = self._cache.files
        for name in files.list_directory(self._directory.path):
            if LEFT_OVER.fullmatch(name):
                files.remove(self._directory.file(name))

    def _checkpoint(self, name: str) -> dict[TopicPartition, int]:
        return self._directory.read_checkpoint(name, lambda sentence: self._on_event(self._directory.path, sentence))

    def _open(
        self,
        path: str,
        topic_partition: TopicPartition,
        recovery_points: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
    ) -> Steps[UnifiedLog]:
        log = yield from UnifiedLog.open(
            self._cache.files,
            path,
            topic_partition,
            self._config_of(topic_partition.topic),
            now_ms=self._now_ms,
            cache=self._cache,
            recovery_point=recovery_points.get(topic_partition, 0),
            log_start_offset=starts.get(topic_partition, 0),
            clean_shutdown=self._directory.was_clean,
            producer_expiration_ms=self._producer_expiration_ms,
            sync_directory=self._sync_directory,
        )
        for event in log.load_report.events if log.load_report is not None else ():
            self._on_event(log.directory, event)
        return log
