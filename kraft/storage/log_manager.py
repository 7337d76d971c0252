"""All logs of one broker, over one or several log directories: opens, recovers, creates, deletes and checkpoints them.

To start: `open` (locks, identity, clean-shutdown marks), then `load` to its end, then other methods. To stop cleanly:
`close_logs` to its end, then `finish_shutdown`. A directory whose disk fails is passed to `directory_failed`. Its logs
are unavailable for this run; the other directories continue. Recurring blocking work is returned as jobs for a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from kraft.common.errors import ConfigurationError, StorageError
from kraft.common.ids import TopicPartition, Uuid
from kraft.storage.deletion import DelayedDeletions, DeletionJob
from kraft.storage.directories.future_logs import FutureLogs
from kraft.storage.directories.log_directory import NO_BROKER_EPOCH, CheckpointJob, LogDirectory, prepare_new_log
from kraft.storage.directories.log_directory_loader import LogDirectoryLoader
from kraft.storage.directories.meta_properties import (
    MetaProperties,
    check_same_node,
    read_meta_properties,
    write_meta_properties,
)
from kraft.storage.file_cache import FileCache
from kraft.storage.log_config import LogConfig
from kraft.storage.log_files import (
    DELETE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    directory_name,
    marked_directory_name,
)
from kraft.storage.producers.producer_state_manager import PRODUCER_ID_EXPIRATION_MS
from kraft.storage.retention import DeletedSegments
from kraft.storage.storage_failure import upkeep_failure
from kraft.storage.tiered_log import RemoteStart, begin_behind_remote, close_to_expire, delete_local_segments
from kraft.storage.truncation import truncate_fully_and_start_at, truncate_to
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import FileSystem
from kraft.world.steps import Steps, at_once


class LogManager:
    """Owns the log directories at `paths` and their logs. Used by one task; the jobs it returns may run in threads."""

    def __init__(
        self,
        files: FileSystem,
        paths: Sequence[str],
        *,
        node_id: int,
        new_uuid: Callable[[], bytes],
        config_of: Callable[[str], LogConfig],
        cache: FileCache | None = None,
        producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        on_event: Callable[[str, str], None] = lambda place, sentence: None,
    ) -> None:
        """`config_of` returns the configuration of a topic by name. `on_event` receives what loading found: (directory,
        sentence)."""
        self.files = files
        self.cache = FileCache(files) if cache is None else cache
        self.directories = [LogDirectory(files, path) for path in paths]
        self.cordoned: frozenset[str] = frozenset()
        """Paths of directories that take no new logs as long as another one is online (KIP-1066)."""
        self.deletions = DelayedDeletions()
        self._node_id = node_id
        self._new_uuid = new_uuid
        self._config_of = config_of
        self._producer_expiration_ms = producer_expiration_ms
        self._on_event = on_event
        self._stack = ExitStack()
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self.futures = FutureLogs(
            self.cache,
            self.directories,
            self.deletions,
            new_uuid=new_uuid,
            put=self._adopt,
            directory_failed=self.directory_failed,
        )

    # Start

    def open(self, cluster_id: str | None) -> str | None:
        """Lock the directories and check their identity. Returns their cluster id (None: no directory is formatted).

        Raises ConfigurationError if a directory is in use or belongs to another cluster or node. Raises StorageError if
        all disks fail. A single failing disk takes its directory offline.
        """
        found = []
        for directory in self.directories:
            try:
                directory.lock(self._stack)
                properties = read_meta_properties(self.files, directory.path)
            except (OSError, StorageError) as problem:
                self.directory_failed(directory.path, str(problem))
                continue
            if properties is not None:
                found.append((directory.path, properties))
                directory.directory_id = properties.directory_id
        self.require_one_online()
        check_same_node(found, cluster_id, self._node_id)
        return found[0][1].cluster_id if found else None

    def format_missing(self, cluster_id: str) -> None:
        """Give every directory without meta.properties an identity, as a broker does once it knows its cluster.

        Raises StorageError when no directory is left.
        """
        for directory in self.online():
            try:
                properties = read_meta_properties(self.files, directory.path)
                if properties is None or properties.directory_id is None:
                    others = {} if properties is None else properties.others
                    properties = MetaProperties(
                        cluster_id=cluster_id, node_id=self._node_id, directory_id=Uuid(self._new_uuid()), others=others
                    )
                    write_meta_properties(self.files, directory.path, properties)
                directory.directory_id = properties.directory_id
            except OSError as problem:
                self.directory_failed(directory.path, str(problem))
        self.require_one_online()

    def require_one_online(self) -> None:
        """Raises StorageError when every directory has failed."""
        if not self.online():
            raise StorageError(
                "no log directory is usable: "
                + "; ".join(f"{directory.path}: {directory.failure}" for directory in self.directories)
            )

    def loads(self, now_ms: int, sync_directory: Callable[[str], None] | None = None) -> list[Steps[None]]:
        """Return the steps that load each directory, after `futures.finish_moves`. They may run concurrently. Call
        `require_one_online` afterwards.

        A log that cannot be read takes its directory offline. `sync_directory` is as for `LogLoader`. Raises
        ConfigurationError if two directories hold the same partition.
        """
        places: dict[TopicPartition, str] = {}
        loads = []
        for directory in self.online():
            try:
                found, deleted = directory.find_logs()
            except OSError as problem:
                self.directory_failed(directory.path, str(problem))
                continue
            for topic_partition in found:
                if topic_partition in places:
                    path = directory.file(directory_name(topic_partition))
                    raise ConfigurationError(
                        [
                            (
                                f"{path}: {topic_partition} is also in {places[topic_partition]}; move that away "
                                "whose disk failed last"
                            )
                        ]
                    )
                places[topic_partition] = directory.path
            self.deletions.add(deleted, now_ms)
            loads.append(self._load_directory(directory, found, now_ms, sync_directory))
        return loads

    def load(self, now_ms: int) -> list[UnifiedLog]:
        """Load all logs synchronously. Raises as `loads` and `require_one_online`."""
        self.futures.finish_moves(now_ms)
        for steps in self.loads(now_ms):
            at_once(steps)
        self.require_one_online()
        return self.logs_and_futures()

    def _load_directory(
        self,
        directory: LogDirectory,
        found: list[TopicPartition],
        now_ms: int,
        sync_directory: Callable[[str], None] | None,
    ) -> Steps[None]:
        loader = LogDirectoryLoader(
            self.cache, directory, self._config_of, self._producer_expiration_ms, self._on_event, now_ms, sync_directory
        )
        try:
            yield from loader.load(
                found, self.futures.interrupted_in(directory), lambda log: self._adopt(directory, log)
            )
        except (OSError, StorageError) as problem:
            self.directory_failed(directory.path, str(problem))

    @property
    def clean_shutdown_epoch(self) -> int:
        """The broker epoch of the last run if every directory was shut down cleanly, else -1. Used in the
        registration."""
        epochs = {directory.clean_shutdown_epoch for directory in self.directories}
        return (
            min(epochs)
            if len(epochs) == 1 and all(directory.was_clean for directory in self.directories)
            else NO_BROKER_EPOCH
        )

    # Logs

    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.is_online]

    def get(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.get(topic_partition)

    def logs(self) -> list[UnifiedLog]:
        return list(self._logs.values())

    def logs_and_futures(self) -> list[UnifiedLog]:
        """Every log and every copy: all logs to close."""
        return [
            *self._logs.values(),
            *(future for directory in self.directories for future in directory.futures.values()),
        ]

    def holds(self, log: UnifiedLog) -> bool:
        """Whether this log or copy is in use."""
        return self._logs.get(log.topic_partition) is log or any(
            directory.futures.get(log.topic_partition) is log for directory in self.directories
        )

    def directory_of(self, log: UnifiedLog) -> LogDirectory:
        """The log directory that holds `log`."""
        parent = log.directory.rpartition("/")[0]
        return next(directory for directory in self.directories if directory.path == parent)

    def get_or_create(
        self, topic_partition: TopicPartition, topic_id: Uuid | None, *, now_ms: int, directory_id: Uuid | None = None
    ) -> UnifiedLog:
        """Return the log of a partition. A new log goes to `directory_for_new`. Its files are created by its first
        write.

        Raises StorageError if every directory is offline.
        """
        found = self._logs.get(topic_partition)
        if found is not None:
            return found
        directory = self.directory_for_new(directory_id)
        prepare_new_log(directory, topic_partition, self.directories)
        path = directory.file(directory_name(topic_partition))
        return self._adopt(
            directory,
            UnifiedLog(
                self.cache,
                path,
                topic_partition,
                self._config_of(topic_partition.topic),
                topic_id=topic_id,
                now_ms=now_ms,
                producer_expiration_ms=self._producer_expiration_ms,
            ),
        )

    def directory_for_new(self, directory_id: Uuid | None) -> LogDirectory:
        """The directory for a new log: `directory_id` if it is known and online, also if it is cordoned; else the one
        with the fewest logs that is not cordoned. If all are cordoned, the one with the fewest logs: as in Kafka,
        the controller assigns no new replicas to such a broker. Raises StorageError if every directory is offline."""
        online = self.online()
        if not online:
            paths = ", ".join(directory.path for directory in self.directories)
            raise StorageError(f"no log directory is online, of {paths}")
        wanted = [] if directory_id is None else [each for each in online if each.directory_id == directory_id]
        open_ones = [directory for directory in online if directory.path not in self.cordoned]
        return min(wanted or open_ones or online, key=lambda directory: len(directory.logs))

    def _adopt(self, directory: LogDirectory, log: UnifiedLog) -> UnifiedLog:
        self._logs[log.topic_partition] = log
        directory.adopt(log)
        return log

    def reconfigure(self, topic: str) -> None:
        """Apply the current configuration of a topic to its logs."""
        config = self._config_of(topic)
        for topic_partition, log in self._logs.items():
            if topic_partition.topic == topic:
                log.config = config

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Set the producer expiration of all logs, including new ones."""
        if expiration_ms != self._producer_expiration_ms:
            self._producer_expiration_ms = expiration_ms
            for log in self.logs_and_futures():
                log.producer_expiration_ms = expiration_ms

    def delete(self, topic_partition: TopicPartition, *, now_ms: int) -> None:
        """Take a log out of use; its directory is renamed to `-delete` and removed after file.delete.delay.ms.
        Raises StorageError."""
        self._set_aside(topic_partition, DELETE_DIRECTORY_SUFFIX, now_ms)

    def set_aside_stray(self, topic_partition: TopicPartition, *, now_ms: int) -> None:
        """Rename a log that is not assigned to this broker to `-stray`. It is kept for inspection and never deleted.
        Raises StorageError."""
        self._set_aside(topic_partition, STRAY_DIRECTORY_SUFFIX, now_ms)

    def _set_aside(self, topic_partition: TopicPartition, suffix: str, now_ms: int) -> None:
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return
        directory = self.directory_of(log)
        directory.leaves(topic_partition)
        if not log.local.files_exist:
            return
        target = directory.file(marked_directory_name(topic_partition, self._new_uuid(), suffix))
        try:
            log.local.rename_directory(target)
            self.files.sync_directory(directory.path)
        except OSError as problem:
            raise StorageError(f"{log.directory}: {problem}") from problem
        if suffix == DELETE_DIRECTORY_SUFFIX:
            self.deletions.add([target], now_ms + log.config.file_delete_delay_ms)

    def truncate_to(self, log: UnifiedLog, offset: int, *, now_ms: int) -> bool:
        """Drop all records from `offset` on, durably; False if there are none. Blocks for some syncs. Raises
        StorageError."""
        return truncate_to(self.directory_of(log), log, offset, now_ms=now_ms)

    def truncate_fully_and_start_at(self, log: UnifiedLog, offset: int, *, now_ms: int) -> None:
        """Empty the log and start it at `offset`. Blocks for some syncs. Raises StorageError."""
        truncate_fully_and_start_at(self.directory_of(log), log, offset, now_ms=now_ms)

    # Housekeeping

    def delete_old_segments(self, log: UnifiedLog, *, now_ms: int, log_start_only: bool = False) -> DeletedSegments:
        """Apply retention to one log. The files are removed after file.delete.delay.ms. In a tiered log the active
        segment is closed first if it is due to leave the disk. Raises StorageError."""
        try:
            close_to_expire(log, now_ms)
            deleted = log.delete_old_segments(now_ms, log_start_only=log_start_only)
        except OSError as problem:
            raise upkeep_failure(problem, log.directory) from problem
        self.deletions.add(deleted.paths, now_ms + log.config.file_delete_delay_ms)
        return deleted

    def take_retention_due(self) -> list[tuple[UnifiedLog, bool]]:
        """Return the logs whose start offset or configuration has changed since the last call, and whether it was the
        configuration: only then does retention by time and size apply before its next check."""
        found: list[tuple[UnifiedLog, bool]] = []
        for directory in self.online():
            due = list(directory.retention_due.items())
            directory.retention_due.clear()
            found += [(log, whole) for name, whole in due if (log := directory.logs.get(name)) is not None]
        return found

    def delete_local_segments(self, log: UnifiedLog, count: int, *, now_ms: int) -> DeletedSegments:
        """Delete segments like `tiered_log.delete_local_segments`. The files are deleted after file.delete.delay.ms.
        Raises StorageError."""
        deleted = delete_local_segments(log, count)
        self.deletions.add(deleted.paths, now_ms + log.config.file_delete_delay_ms)
        return deleted

    def begin_behind_remote(self, log: UnifiedLog, start: RemoteStart, *, now_ms: int) -> None:
        """Begin the log like `tiered_log.begin_behind_remote`. Raises StorageError, CorruptData."""
        begin_behind_remote(self.directory_of(log), log, start, now_ms=now_ms)

    def due_deletions(self, now_ms: int) -> DeletionJob | None:
        """A job for the files due for removal; None if there are none."""
        return self.deletions.take_due(self.files, now_ms)

    def recovery_checkpoints(self) -> list[tuple[LogDirectory, CheckpointJob]]:
        """A recovery checkpoint job for each online directory."""
        return [(directory, directory.recovery_checkpoints()) for directory in self.online()]

    def checkpoint_all(self) -> None:
        """Write every checkpoint now; blocks. A disk that fails takes its directory offline."""
        high_watermarks = [(directory, directory.high_watermark_checkpoint()) for directory in self.online()]
        for directory, job in (*self.recovery_checkpoints(), *high_watermarks):
            try:
                job.run()
            except StorageError as problem:
                self.directory_failed(directory.path, str(problem))

    def directory_failed(self, path: str, why: str) -> list[TopicPartition]:
        """Take a log directory offline for the rest of this run. Returns the partitions that are lost with it."""
        directory = next(directory for directory in self.directories if directory.path == path)
        if directory.failure is not None:
            return []
        directory.failure = why
        self._on_event(path, f"offline: {why}")
        gone = list(directory.logs)
        for topic_partition in gone:
            del self._logs[topic_partition]
        directory.logs, directory.futures = {}, {}
        self.cache.forget_directory(path)
        self.deletions.forget_directory(path)
        return gone

    # Stop

    def close_logs(self) -> Iterator[UnifiedLog]:
        """Flush and close every log, one at each step; blocks. A disk that fails takes its directory offline."""
        for log in self.logs_and_futures():
            try:
                log.close()
            except (OSError, StorageError) as problem:
                self.directory_failed(self.directory_of(log).path, str(problem))
            yield log

    def finish_shutdown(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Write checkpoints, mark the shutdown as clean in every online directory, and release the locks."""
        self.checkpoint_all()
        for directory in self.online():
            try:
                directory.write_clean_shutdown_mark(broker_epoch)
            except OSError as problem:
                self.directory_failed(directory.path, str(problem))
        self.release()

    def release(self) -> None:
        """Release files and locks without making anything durable."""
        self._logs.clear()
        self.cache.clear()
        self._stack.close()
