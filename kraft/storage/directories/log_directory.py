"""One log directory (one disk, as a rule): its lock, its identity, its clean-shutdown mark, its checkpoints and the
logs in it.

A directory is online until its disk fails once; it never comes back while the process lives, since what it holds may
differ from what we believe.
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
"""Names of logs remembered because checkpoints may still tell of them; beyond that any new log has the checkpoints
written anew."""
LOGS_PER_STEP = 500
"""Logs that a checkpoint looks at before others have their turn."""
PREPARED = ".prepared"  # Not the name that `replace_file` uses: both may be under way.


class CheckpointJob:
    """Checkpoint files to be replaced, with their content as of now.

    `run` does it at once, on the loop. What need not be done at once goes in three steps, of which the first and the
    last wait for the disk and belong in a thread: `prepare`, `put_in_place` on the loop, `finish`. A job that was
    made later may run in between; what it wrote is newer and stays. All raise StorageError (OutOfResources may
    pass).
    """

    __slots__ = ("_beside", "_files", "_newest", "contents")

    def __init__(
        self,
        files: FileSystem,
        contents: Sequence[tuple[str, bytes]],
        newest: Mapping[str, bytes],
        beside: str = PREPARED,
    ) -> None:
        """`newest` is, of each path, what the latest job is to write there; `beside` the suffix of what `prepare`
        writes, this job's own."""
        self._files = files
        self._newest = newest
        self._beside = beside
        self.contents = contents

    def run(self) -> None:
        with self._failing():
            for path, content in self.contents:
                replace_file(self._files, path, content)

    def prepare(self) -> None:
        """Write everything beside what is there."""
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
        """Rename what is still the newest; the rest is of no use."""
        with self._failing():
            for path, content in self.contents:
                if self._newest.get(path) is content:
                    self._files.rename(path + self._beside, path)
                else:
                    self._files.remove(path + self._beside)

    @property
    def is_newest(self) -> bool:
        """Whether no other job was made since."""
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
    """Before the directory is formatted: a power loss that took its name, or one above it, would leave none, and
    another node's might be made in its place. A relative `path` is followed up to the current directory."""
    while path not in ("/", "."):
        path = posixpath.dirname(path) or "."
        try:
            files.sync_directory(path)
        except PermissionError:
            return  # Not ours to open, so made by somebody else, long ago.


class LogDirectory:
    """`path` without a trailing slash. `failure` says why it is offline; None while it is online."""

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
        """Copies that grow here, of logs that are in other directories."""
        self.was_clean = False
        self.clean_shutdown_epoch = NO_BROKER_EPOCH
        self._written: dict[str, bytes] = {}
        self._points: dict[TopicPartition, int] = {}
        """The highest recovery point that the disk may have of a log; of one that is missing here it may have any."""
        self._gone: dict[TopicPartition, None] = {}
        self.clean_offsets: dict[TopicPartition, int] = {}
        """How far the logs here are clean. The disk never has more of a log, unless that is gone."""
        self._clean_newest: dict[str, bytes] = {}
        self._jobs = 0
        self._recovery_points, self._starts, self._high_watermarks = OffsetTable(), OffsetTable(), OffsetTable()
        self.moved_high_watermarks: dict[TopicPartition, None] = {}
        """Logs whose high watermark `_high_watermarks` may not have. Each log here adds itself."""
        self.retention_due: dict[TopicPartition, None] = {}
        """Logs whose start or configuration has changed since retention was last applied. Each log here adds itself."""

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def lock(self, stack: ExitStack) -> None:
        """Make the directory if it is missing and hold `.lock` until `stack` closes. Raises ConfigurationError when
        another process holds it."""
        self._files.make_directories(self.path)
        if not self._files.exists(meta_properties_path(self.path)):
            make_name_durable(self._files, self.path)
        try:
            stack.enter_context(self._files.lock(self.file(LOCK)))
        except LockHeld as held:
            raise ConfigurationError([f"{self.path}: {_in_use(held.holders)}"]) from None

    # Logs come and go

    def adopt(self, log: UnifiedLog) -> None:
        """A log lives here from now on."""
        self.logs[log.topic_partition] = log
        log.moved_high_watermarks = self.moved_high_watermarks
        log.local.retention_due = self.retention_due
        self.moved_high_watermarks[log.topic_partition] = None

    def find_logs(self) -> tuple[list[TopicPartition], list[str]]:
        """The logs on the disk, by name, and the directories of those that were to be deleted. Raises OSError."""
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
        """A log is deleted, or lives elsewhere from now on; checkpoints on the disk tell of it until they are
        written the next time."""
        del self.logs[topic_partition]
        self.forget(topic_partition)

    def future_leaves(self, topic_partition: TopicPartition) -> None:
        """Forget a future log that is given up, as `leaves` does for a log."""
        if self.futures.pop(topic_partition, None) is not None:
            self.forget(topic_partition)

    def forget(self, topic_partition: TopicPartition) -> None:
        """What checkpoints on the disk tell of a log that is here no more is not to count for another of its name."""
        for table in (self._recovery_points, self._starts, self._high_watermarks):
            table.drop(topic_partition)
        self._points.pop(topic_partition, None)
        self.clean_offsets.pop(topic_partition, None)
        if len(self._gone) < GONE_MAX:
            self._gone[topic_partition] = None

    def before_new(self, topic_partition: TopicPartition) -> None:
        """A log is about to be made here: what checkpoints tell of an earlier one of its name must not count for it.
        May block. Raises StorageError."""
        if topic_partition in self._gone or len(self._gone) >= GONE_MAX:
            self.checkpoint_missed()
            self.recovery_checkpoints().run()
            self.high_watermark_checkpoint().run()
            self._clean_checkpoint(self.clean_offsets).run()
            self._gone.clear()

    # Clean shutdown

    def take_clean_shutdown_mark(self) -> None:
        """See whether the last run ended in good order, and remove the mark durably before anything is written."""
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
        """A damaged checkpoint counts as empty: every log is then recovered from its start."""
        try:
            return read_offset_checkpoint(self._files, self.file(name))
        except CorruptData as problem:
            on_corrupt(str(problem))
            return {}

    def recovery_checkpoints(self) -> CheckpointJob:
        """Recovery points and log starts, those of copies too; only files whose content has changed."""
        return at_once(self.gather_recovery_points())

    def gather_recovery_points(self) -> Steps[CheckpointJob]:
        """Gather the same recovery points in steps. A log may change after it was looked at, as after a job was made:
        `no_recovery_point_beyond` goes by what was taken from it."""
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
        """See to it that the disk has none for this log, now or later, while the log's own is not beyond; likewise
        of how far it is clean. Blocks for some syncs where it may have. With `start_falls` the disk is told of the
        log's start, too. Raises StorageError."""
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
        """Gather the same high watermarks in steps. The job has every high watermark as it is when the job is made:
        those that moved meanwhile come with the last step."""
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
        """A job did not do its work, or may not have done it yet: the next one writes every file, changed or not."""
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
        """What the last run left, once the logs here are loaded; a log may end earlier now. May block. Raises
        StorageError.

        `recorded` are the logs that other checkpoints name. Those that are not here were deleted shortly before a
        crash."""
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
        """A log is clean up to `offset`; the job makes that durable."""
        self.clean_offsets[topic_partition] = offset
        return self._clean_checkpoint(self.clean_offsets)

    def _lower_clean_offsets(self, bounds: Mapping[TopicPartition, int]) -> None:
        """None is beyond its bound, on the disk either, and whatever is under way."""
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
    """A log is about to be made in `directory`, or to replace one elsewhere in `directories`. May block. Raises
    StorageError."""
    directory.before_new(topic_partition)
    remember_absent(directory, directories)


def remember_absent(directory: LogDirectory, directories: Sequence[LogDirectory]) -> None:
    """`directory` notes that its logs count for more than what is on those of `directories` that are offline now.
    May block. Raises StorageError."""
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
    """The message that says who holds the lock of a directory, and what to do about it."""
    if not holders:
        return f"in use by another process, which holds {LOCK}: stop it, or have this node use another directory"
    told = ", ".join(
        f"{holder.pid} ({'frozen by SIGSTOP, ' if holder.is_frozen else ''}{holder.command})" for holder in holders
    )
    frozen = [holder.pid for holder in holders if holder.is_frozen]
    how = f"kill -9 {' '.join(map(str, frozen))}" if frozen else f"kill {holders[0].pid}"
    return f"in use by process {told}, which holds {LOCK}: stop it ({how}), or have this node use another directory"
