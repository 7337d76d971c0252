"""One log directory (usually one disk): its lock, identity, clean-shutdown mark, checkpoints and logs.

A directory is online until its disk fails once. It stays offline until a restart, because its content may differ from
the state in memory.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from kraft.common.errors import ConfigurationError, CorruptData
from kraft.common.ids import METADATA_TOPIC, TopicPartition, Uuid
from kraft.storage.checkpoints import (
    offset_checkpoint_text,
    read_offset_checkpoint,
    read_text,
    replace_file,
    write_file,
)
from kraft.storage.directories.absent_directories import AbsentDirectories
from kraft.storage.directories.meta_properties import meta_properties_path
from kraft.storage.directories.offset_table import OffsetTable
from kraft.storage.log_files import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    DELETE_DIRECTORY_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    is_marked_directory,
    parse_directory_name,
)
from kraft.storage.storage_failure import upkeep_failure
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import FileSystem, LockHeld, LockHolder
from kraft.world.steps import Steps, at_once

NO_BROKER_EPOCH = -1
GONE_MAX = 10_000
"""Limit of removed logs remembered because checkpoints on disk may still contain them. Beyond it the checkpoints are
written before a log is created."""
LOGS_PER_STEP = 500
"""Logs that a checkpoint processes between two yields."""
PREPARED = ".prepared"  # Not the name that `replace_file` uses: both may be under way.


class CheckpointJob:
    """Replaces checkpoint files with the content they had when the job was created.

    `run` does everything synchronously. Otherwise the job has three steps: `prepare` (in a thread), `put_in_place` (on
    the loop), `finish` (in a thread). A newer job may run between the steps; the files it wrote are kept. All raise
    StorageError; OutOfResources may be temporary.
    """

    __slots__ = ("_beside", "_files", "_newest", "contents")

    def __init__(
        self,
        files: FileSystem,
        contents: Sequence[tuple[str, bytes]],
        newest: Mapping[str, bytes],
        beside: str = PREPARED,
    ) -> None:
        """`newest` has, for each path, the content of the latest job. `beside` is the suffix of this job's own
        temporary files."""
        self._files = files
        self._newest = newest
        self._beside = beside
        self.contents = contents

    def run(self) -> None:
        with self._failing():
            for path, content in self.contents:
                replace_file(self._files, path, content)

    def prepare(self) -> None:
        """Write the new content to temporary files."""
        with self._failing():
            try:
                for path, content in self.contents:
                    write_file(self._files, path + self._beside, content, durable=True)
            except OSError:
                for beside in [path + self._beside for path, _ in self.contents]:
                    if self._files.exists(beside):
                        self._files.remove(beside)
                raise

    def put_in_place(self) -> None:
        """Rename the temporary files that are still the newest into place."""
        with self._failing():
            for path, content in self.contents:
                if self._newest.get(path) is content:
                    self._files.rename(path + self._beside, path)
                else:
                    self._files.remove(path + self._beside)

    @property
    def is_newest(self) -> bool:
        """Whether no newer job was created."""
        return all(self._newest.get(path) is content for path, content in self.contents)

    def finish(self) -> None:
        """Make the names durable."""
        with self._failing():
            for directory in dict.fromkeys(path.rpartition("/")[0] for path, _ in self.contents):
                self._files.sync_directory(directory)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise upkeep_failure(problem, "checkpoint") from problem


def make_name_durable(files: FileSystem, path: str) -> None:
    """Make the directory's name, and the names above it, durable before it is formatted. Otherwise a power loss could
    remove the directory and another node's could be created there. A relative `path` is followed up to the current
    directory."""
    while path not in ("/", "."):
        path = posixpath.dirname(path) or "."
        try:
            files.sync_directory(path)
        except PermissionError:
            return  # This user may not open it, so another user created it, long ago.


class LogDirectory:
    """A log directory. `path` has no trailing slash. `failure` says why it is offline; None while it is online."""

    __slots__ = (
        "_clean_newest",
        "_files",
        "_gone",
        "_high_watermarks",
        "_jobs",
        "_points",
        "_recovery_points",
        "_starts",
        "_written",
        "absent",
        "clean_offsets",
        "clean_shutdown_epoch",
        "directory_id",
        "failure",
        "futures",
        "logs",
        "moved_high_watermarks",
        "path",
        "retention_due",
        "was_clean",
    )

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self.path = path
        self.absent = AbsentDirectories(files, path)
        self.directory_id: Uuid | None = None
        self.failure: str | None = None
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.futures: dict[TopicPartition, UnifiedLog] = {}
        """Copies in this directory of logs in other directories."""
        self.was_clean = False
        self.clean_shutdown_epoch = NO_BROKER_EPOCH
        self._written: dict[str, bytes] = {}
        self._points: dict[TopicPartition, int] = {}
        """By log: an upper bound of the recovery points that checkpoints on disk may have. A log without an entry has
        no bound."""
        self._gone: dict[TopicPartition, None] = {}
        self.clean_offsets: dict[TopicPartition, int] = {}
        """Cleaner offset of each log. The disk never has a higher one, unless the log was removed."""
        self._clean_newest: dict[str, bytes] = {}
        self._jobs = 0
        self._recovery_points, self._starts, self._high_watermarks = OffsetTable(), OffsetTable(), OffsetTable()
        self.moved_high_watermarks: dict[TopicPartition, None] = {}
        """Logs whose entry in `_high_watermarks` may be outdated. Each log adds itself."""
        self.retention_due: dict[TopicPartition, bool] = {}
        """Logs whose start offset (False) or configuration (True) has changed since retention was last applied. Each
        log adds itself."""

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def lock(self, stack: ExitStack) -> None:
        """Create the directory if it is missing and hold its `.lock` until `stack` closes. Raises ConfigurationError if
        another process holds the lock."""
        self._files.make_directories(self.path)
        if not self._files.exists(meta_properties_path(self.path)):
            make_name_durable(self._files, self.path)
        try:
            stack.enter_context(self._files.lock(self.file(LOCK)))
        except LockHeld as held:
            raise ConfigurationError([f"{self.path}: {_in_use(held.holders)}"]) from None

    # Logs come and go

    def adopt(self, log: UnifiedLog) -> None:
        """Add a log to this directory."""
        self.logs[log.topic_partition] = log
        log.moved_high_watermarks = self.moved_high_watermarks
        log.local.retention_due = self.retention_due
        self.moved_high_watermarks[log.topic_partition] = None

    def find_logs(self) -> tuple[list[TopicPartition], list[str]]:
        """Return the logs on the disk by name, and the directories marked for deletion. Raises OSError."""
        found, deleted = [], []
        for name in self._files.list_directory(self.path):
            topic_partition = parse_directory_name(name)
            if is_marked_directory(name, DELETE_DIRECTORY_SUFFIX):
                deleted.append(self.file(name))
            elif (
                topic_partition is not None
                and topic_partition.topic != METADATA_TOPIC
                and self._files.status(self.file(name)).is_directory
            ):
                found.append(topic_partition)
        return found, deleted

    def leaves(self, topic_partition: TopicPartition) -> None:
        """Remove a log that was deleted or moved. The checkpoints on disk still list it until they are written
        again."""
        del self.logs[topic_partition]
        self.forget(topic_partition)

    def future_leaves(self, topic_partition: TopicPartition) -> None:
        """Remove a discarded future log, as `leaves` does for a log."""
        if self.futures.pop(topic_partition, None) is not None:
            self.forget(topic_partition)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Drop the checkpoint entries of a removed log, so that they do not apply to a later log of its name."""
        for table in (self._recovery_points, self._starts, self._high_watermarks):
            table.drop(topic_partition)
        self._points.pop(topic_partition, None)
        self.clean_offsets.pop(topic_partition, None)
        if len(self._gone) < GONE_MAX:
            self._gone[topic_partition] = None

    def before_new(self, topic_partition: TopicPartition) -> None:
        """Prepare for a new log: the checkpoints must have no entries of an earlier log of its name. May block. Raises
        StorageError."""
        if topic_partition in self._gone or len(self._gone) >= GONE_MAX:
            self.checkpoint_missed()
            self.recovery_checkpoints().run()
            self.high_watermark_checkpoint().run()
            self._clean_checkpoint(self.clean_offsets).run()
            self._gone.clear()

    # Clean shutdown

    def take_clean_shutdown_mark(self) -> None:
        """Check whether the last run shut down cleanly, and remove the mark durably before anything is written."""
        path = self.file(CLEAN_SHUTDOWN)
        text = read_text(self._files, path)
        if text is None:
            return
        self.was_clean = True
        self.clean_shutdown_epoch = _broker_epoch(text)
        self._files.remove(path)
        self._files.sync_directory(self.path)

    def write_clean_shutdown_mark(self, broker_epoch: int) -> None:
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        replace_file(self._files, self.file(CLEAN_SHUTDOWN), content.encode())

    # Checkpoints

    def read_checkpoint(self, name: str, on_corrupt: Callable[[str], None]) -> dict[TopicPartition, int]:
        """Read an offset checkpoint. A damaged one counts as empty, so every log is recovered from its start."""
        try:
            return read_offset_checkpoint(self._files, self.file(name))
        except CorruptData as problem:
            on_corrupt(str(problem))
            return {}

    def recovery_checkpoints(self) -> CheckpointJob:
        """A job for the recovery points and log start offsets, including those of copies. It writes only files whose
        content changed."""
        return at_once(self.gather_recovery_points())

    def gather_recovery_points(self) -> Steps[CheckpointJob]:
        """Build the job of `recovery_checkpoints` in steps. A log may change after it was read;
        `no_recovery_point_beyond` accounts for the values already taken."""
        for done, log in enumerate((*self.futures.values(), *self.logs.values())):
            if self._holds(log) and log.local.files_exist:
                self._take_recovery_point(log)
            if done % LOGS_PER_STEP == LOGS_PER_STEP - 1:
                yield None
        return self._job({RECOVERY_POINT_CHECKPOINT: self._recovery_points, LOG_START_OFFSET_CHECKPOINT: self._starts})

    def _holds(self, log: UnifiedLog) -> bool:
        topic_partition = log.topic_partition
        return self.logs.get(topic_partition) is log or self.futures.get(topic_partition) is log

    def _take_recovery_point(self, log: UnifiedLog) -> None:
        topic_partition = log.topic_partition
        point = log.flush_state.recovery_point_to_keep(log.log_end_offset)
        self._recovery_points.put(topic_partition, point)
        if topic_partition in self._points:
            self._points[topic_partition] = max(point, self._points[topic_partition])
        is_tiered = log.config.remote_storage_enable  # Its start is none of its segments'.
        if log.log_start_offset > (0 if is_tiered else log.segments[0].base_offset):
            self._starts.put(topic_partition, log.log_start_offset)
        else:
            self._starts.drop(topic_partition)

    def no_recovery_point_beyond(
        self, topic_partition: TopicPartition, offset: int, *, start_falls: bool = False
    ) -> None:
        """Ensure that no checkpoint has a recovery point or clean offset of this log beyond `offset`. This covers
        checkpoints on disk and those a job in progress will write. Blocks for a few syncs if a checkpoint must be
        written. With `start_falls` the log start offset is written too. Raises StorageError."""
        if start_falls or self._points.get(topic_partition, offset + 1) > offset:
            # A job under way has promised what is not on the disk yet, and may be about to write what is too old.
            self.checkpoint_missed()
            self.recovery_checkpoints().run()
            logs = (*self.futures.items(), *self.logs.items())
            self._points = {
                topic_partition: log.flush_state.recovery_point_to_keep(log.log_end_offset)
                for topic_partition, log in logs
                if log.local.files_exist
            }
        self._lower_clean_offsets({topic_partition: offset})

    def high_watermark_checkpoint(self) -> CheckpointJob:
        return at_once(self.gather_high_watermarks())

    def gather_high_watermarks(self) -> Steps[CheckpointJob]:
        """Build the high watermark checkpoint in steps. The job has every high watermark as of its creation: the last
        step adds those that moved meanwhile."""
        moved = self.moved_high_watermarks
        for done in range(len(moved)):
            if not moved:  # Another job took them.
                break
            self._take_high_watermark(moved.popitem()[0])
            if done % LOGS_PER_STEP == LOGS_PER_STEP - 1:
                yield None
        while moved:
            self._take_high_watermark(moved.popitem()[0])
        return self._job({HIGH_WATERMARK_CHECKPOINT: self._high_watermarks})

    def _take_high_watermark(self, topic_partition: TopicPartition) -> None:
        log = self.logs.get(topic_partition)
        if log is not None:
            self._high_watermarks.put(topic_partition, log.high_watermark)

    def checkpoint_missed(self) -> None:
        """Record that a job failed or may be incomplete: the next job writes every file, changed or not."""
        self._written.clear()

    def _job(self, checkpoints: Mapping[str, OffsetTable]) -> CheckpointJob:
        contents = []
        for name, table in checkpoints.items():
            content = table.content()
            path = self.file(name)
            if self._written.get(path) != content:
                self._written[path] = content
                contents.append((path, content))
        return self._numbered(contents, self._written)

    def _numbered(self, contents: Sequence[tuple[str, bytes]], newest: Mapping[str, bytes]) -> CheckpointJob:
        self._jobs += 1
        return CheckpointJob(self._files, contents, newest, f"{PREPARED}.{self._jobs}")

    # How far logs are clean

    def restore_clean_offsets(self, offsets: Mapping[TopicPartition, int], recorded: Iterable[TopicPartition]) -> None:
        """Restore the clean offsets of the last run after the logs are loaded, bounded by the log ends. May block.
        Raises StorageError.

        `recorded` are the logs named in other checkpoints. Logs named there but missing were deleted shortly before a
        crash.
        """
        self.clean_offsets.update(
            {topic_partition: offset for topic_partition, offset in offsets.items() if topic_partition in self.logs}
        )
        for topic_partition in (*offsets, *recorded):
            if topic_partition not in self.logs:
                self.forget(topic_partition)
        self._lower_clean_offsets(
            {topic_partition: self.logs[topic_partition].log_end_offset for topic_partition in self.clean_offsets}
        )

    def cleaned(self, topic_partition: TopicPartition, offset: int) -> CheckpointJob:
        """Set the clean offset of a log. Returns the job that makes it durable."""
        self.clean_offsets[topic_partition] = offset
        return self._clean_checkpoint(self.clean_offsets)

    def _lower_clean_offsets(self, bounds: Mapping[TopicPartition, int]) -> None:
        """Lower clean offsets to the bounds, in memory and on disk, also while a job is in progress."""
        lower = {
            topic_partition: bound
            for topic_partition, bound in bounds.items()
            if self.clean_offsets.get(topic_partition, bound) > bound
        }
        if lower:
            self._clean_checkpoint({**self.clean_offsets, **lower}).run()
            self.clean_offsets.update(lower)

    def _clean_checkpoint(self, offsets: Mapping[TopicPartition, int]) -> CheckpointJob:
        path = self.file(CLEANER_CHECKPOINT)
        content = self._clean_newest[path] = offset_checkpoint_text(offsets).encode()
        return self._numbered([(path, content)], self._clean_newest)


def prepare_new_log(
    directory: LogDirectory, topic_partition: TopicPartition, directories: Sequence[LogDirectory]
) -> None:
    """Prepare `directory` for a new log, which may replace one in other `directories`. May block. Raises
    StorageError."""
    directory.before_new(topic_partition)
    remember_absent(directory, directories)


def remember_absent(directory: LogDirectory, directories: Sequence[LogDirectory]) -> None:
    """Record in `directory` that its logs supersede those on the `directories` that are offline now. May block. Raises
    StorageError."""
    try:
        directory.absent.add([other.path for other in directories if not other.is_online])
    except OSError as problem:
        raise upkeep_failure(problem, directory.path) from problem


def _broker_epoch(text: str) -> int:
    """The epoch in the mark; -1 for a mark of an older form or a damaged one."""
    try:
        return int(json.loads(text)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH


def _in_use(holders: Sequence[LockHolder]) -> str:
    """The error message that names the process holding a directory's lock, and says what to do."""
    if not holders:
        return f"in use by another process, which holds {LOCK}: stop it, or have this node use another directory"
    processes = ", ".join(
        f"{holder.pid} ({'frozen by SIGSTOP, ' if holder.is_frozen else ''}{holder.command})" for holder in holders
    )
    frozen = [holder.pid for holder in holders if holder.is_frozen]
    how = f"kill -9 {' '.join(map(str, frozen))}" if frozen else f"kill {holders[0].pid}"
    return (
        f"in use by process {processes}, which holds {LOCK}: stop it ({how}), or have this node use another directory"
    )
