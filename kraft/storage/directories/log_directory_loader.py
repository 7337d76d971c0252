"""Loads the logs and future logs of one log directory when a node starts.

`log_loader` loads a single log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from kraft.common.ids import TopicPartition
from kraft.storage.checkpoints import replace_file
from kraft.storage.directories.log_directory import PREPARED, LogDirectory
from kraft.storage.file_cache import FileCache
from kraft.storage.log_config import LogConfig
from kraft.storage.log_files import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TRANSACTION_INDEXES_WHOLE,
    directory_name,
)
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import Steps

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
        """`sync_directory` is as for `LogLoader`. `on_event` receives (directory, sentence) for each repair."""
        self._cache = cache
        self._directory = directory
        self._config_of = config_of
        self._producer_expiration_ms = producer_expiration_ms
        self._on_event = on_event
        self._now_ms = now_ms
        self._sync_directory = sync_directory
        self._doubts_transaction_indexes = False

    def load(
        self,
        found: Iterable[TopicPartition],
        copies: Iterable[tuple[TopicPartition, str]],
        adopt: Callable[[UnifiedLog], object],
    ) -> Steps[None]:
        """Open the logs in `found` and pass each to `adopt`. Then open the copies and add them to the directory. Raises
        OSError, StorageError."""
        directory = self._directory
        directory.take_clean_shutdown_mark()
        self._doubts_transaction_indexes = not self._cache.files.exists(directory.file(TRANSACTION_INDEXES_WHOLE))
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
        if self._doubts_transaction_indexes:
            yield from self._trust_transaction_indexes()

    def _trust_transaction_indexes(self) -> Steps[None]:
        """Record that the transaction indexes of every log were checked once, unless damage prevented it. Earlier
        releases lost aborted transactions of small logs at a shutdown, and continued with an incomplete index."""
        directory = self._directory
        logs = (*directory.logs.values(), *directory.futures.values())
        if logs:
            added = sum(log.load_report.transactions_added for log in logs if log.load_report is not None)
            self._on_event(
                directory.path,
                f"looked through {len(logs)} logs for aborted transactions not in their indexes: {added}",
            )
        if all(segment.transaction_index_is_whole for log in logs for segment in log.segments):
            yield lambda: replace_file(self._cache.files, directory.file(TRANSACTION_INDEXES_WHOLE), b"0\n")

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
            doubts_transaction_indexes=self._doubts_transaction_indexes,
        )
        for event in log.load_report.events if log.load_report is not None else ():
            self._on_event(log.directory, event)
        return log
