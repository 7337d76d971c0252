"""Opening what a log directory holds, when a node starts: logs, and copies of logs that grow in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kraft.common.ids import TopicPartition
from kraft.storage.file_cache import FileCache
from kraft.storage.log_config import LogConfig
from kraft.storage.log_directory import LogDirectory
from kraft.storage.unified_log import UnifiedLog


@dataclass(frozen=True, slots=True)
class LogOpener:
    """What is the same for all logs of one directory. `sync_directory` as for `LogLoader`; `on_event` is told what each log had to mend."""

    cache: FileCache
    directory: LogDirectory
    config_of: Callable[[str], LogConfig]
    producer_expiration_ms: int
    on_event: Callable[[str, str], None]
    recovery_points: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int]
    now_ms: int
    sync_directory: Callable[[str], None] | None

    def open(self, path: str, topic_partition: TopicPartition) -> UnifiedLog:
        """The log at `path`. Raises OSError, StorageError."""
        log = UnifiedLog.open(
            self.cache.files,
            path,
            topic_partition,
            self.config_of(topic_partition.topic),
            now_ms=self.now_ms,
            cache=self.cache,
            recovery_point=self.recovery_points.get(topic_partition, 0),
            log_start_offset=self.log_starts.get(topic_partition, 0),
            clean_shutdown=self.directory.was_clean,
            producer_expiration_ms=self.producer_expiration_ms,
            sync_directory=self.sync_directory,
        )
        for event in log.load_report.events if log.load_report is not None else ():
            self.on_event(log.directory, event)
        return log
