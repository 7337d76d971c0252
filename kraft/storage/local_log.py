"""The files of one log: its directory and its segments, in order. It handles offsets and bytes; producers, epochs and
read bounds are in `unified_log`.

Invariant: at least one segment; base offsets ascend strictly; the last segment is active and receives the appends. A
log that was never written has no directory. The first append creates the directory and `partition.metadata`, so that
thousands of partitions can be created quickly.
"""

from __future__ import annotations

from kraft.common.errors import CorruptData, StorageError
from kraft.common.ids import TopicPartition, Uuid
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.checkpoints import partition_metadata_text, read_partition_metadata, write_file
from kraft.storage.file_cache import FileCache, OpenFile
from kraft.storage.indexes.transaction_index import AbortedTransaction
from kraft.storage.log_files import DELETED_SUFFIX, LOG_SUFFIX, PARTITION_METADATA
from kraft.storage.log_reader import EMPTY, FetchData, find_batch_by_timestamp, read_slices, segment_at
from kraft.storage.log_segment import LogSegment


class LocalLog:
    """Segments under `directory`. Every method that touches the disk may raise OSError."""

    __slots__ = (
        "cache",
        "directory",
        "files_exist",
        "retention_due",
        "segments",
        "topic_id",
        "topic_partition",
        "unsynced_directory",
        "unsynced_names",
    )

    def __init__(
        self, cache: FileCache, directory: str, topic_partition: TopicPartition, topic_id: Uuid | None, now_ms: int
    ) -> None:
        self.cache = cache
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments = [LogSegment(cache, directory, 0, size=0, created_ms=now_ms, fresh=True)]
        self.files_exist = False
        self.unsynced_directory = False
        """Whether the directory's name and partition.metadata are not durable yet."""
        self.unsynced_names = False
        """Whether names in the directory are not durable yet."""
        self.retention_due: dict[TopicPartition, bool] = {}
        """The log directory's list of logs with segments to delete before the next check of all logs."""

    @property
    def active_segment(self) -> LogSegment:
        return self.segments[-1]

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def make_files(self) -> None:
        """Create the directory and partition.metadata. They become durable with the first flush."""
        self.cache.files.make_directories(self.directory)
        if self.topic_id is not None:
            write_file(self.cache.files, self.path(PARTITION_METADATA), partition_metadata_text(self.topic_id).encode())
        self.files_exist = self.unsynced_directory = self.unsynced_names = True

    def read_topic_id(self, events: list[str]) -> Uuid | None:
        """Read the topic id from partition.metadata. Returns None if a power loss left the file incomplete; it becomes
        durable with the first flush. Faults of the file are appended to `events`."""
        try:
            return read_partition_metadata(self.cache.files, self.path(PARTITION_METADATA))
        except CorruptData as problem:
            events.append(str(problem))
            return None

    # Growing

    def roll(self, base_offset: int, now_ms: int) -> LogSegment:
        """Close the active segment and open a new one at `base_offset`. An empty active segment with that base offset
        is kept."""
        active = self.segments[-1]
        if active.base_offset == base_offset and active.size == 0:
            return active
        assert base_offset > active.base_offset, f"{self.directory}: roll to {base_offset} behind {active.base_offset}"
        if active.size or self.files_exist:
            active.close_for_appends()
        segment = LogSegment(self.cache, self.directory, base_offset, size=0, created_ms=now_ms, fresh=True)
        segment.make_log()  # An empty segment's name is what remembers its offset.
        self.segments.append(segment)
        self.unsynced_names = True
        return segment

    # Shrinking

    def delete_first(self, count: int) -> list[str]:
        """Remove the `count` oldest segments from the log. Returns their files, renamed to .deleted, which the caller
        removes after file.delete.delay.ms. If a rename fails, that segment and the later ones stay. Raises StorageError
        if a sync fails for any reason: a sync is never retried."""
        if self.unsynced_names:
            try:
                self.cache.files.sync_directory(self.directory)  # What remains must not be lost while these go.
            except OSError as problem:
                raise StorageError(f"{self.directory}: {problem}") from problem
        paths: list[str] = []
        done = 0
        try:
            for segment in self.segments[:count]:
                paths += segment.change_suffix(DELETED_SUFFIX)
                done += 1
        except OSError:
            # Without its log file a segment is gone. A start removes indexes that have kept their names.
            done += not self.cache.files.exists(self.segments[done].path(LOG_SUFFIX))
            raise
        finally:
            self.segments = self.segments[done:]
        return paths

    def replace(self, old: list[LogSegment], new: list[LogSegment]) -> None:
        """Replace the old segments by the cleaned ones."""
        at = self.segments.index(old[0])
        assert self.segments[at : at + len(old)] == old
        self.segments[at : at + len(old)] = new

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that reaches `offset`, later segments first, so that a crash in between leaves no gap.

        Durable on return: truncated records must not reappear. Raises CorruptData, with nothing changed, if damage
        hides the position.
        """
        if self.files_exist:
            self.segments[segment_at(self.segments, offset - 1)].find(offset)
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            self.segments.pop().delete_files()
            self.cache.files.sync_directory(self.directory)
        if self.files_exist:
            segment = self.segments[-1]
            segment.truncate_to(offset)
            segment.open_log().file.sync()
        self.unsynced_names = True

    def start_afresh(self, offset: int, now_ms: int) -> None:
        """Drop all segments and create an empty one at `offset`."""
        while self.segments:
            self.segments[-1].delete_files()
            self.segments.pop()
        self.segments.append(LogSegment(self.cache, self.directory, offset, size=0, created_ms=now_ms, fresh=True))
        if not self.files_exist:
            self.make_files()
        self.segments[-1].make_log()
        self.cache.files.sync_directory(self.directory)
        self.unsynced_names = True

    # Reading

    def read(self, offset: int, max_bytes: int, bound: int, end_offset: int, min_one_message: bool) -> FetchData:
        if not self.files_exist:
            return EMPTY
        return read_slices(self.segments, offset, max_bytes, bound, end_offset, min_one_message)

    def find_batch_by_timestamp(self, timestamp: int, start_offset: int) -> RecordBatch | None:
        """Return the first batch that ends at `start_offset` or later and whose header's largest timestamp is at least
        `timestamp`. Raises CorruptData."""
        return find_batch_by_timestamp(self.segments, timestamp, start_offset) if self.files_exist else None

    def max_timestamp(self) -> int:
        """The largest timestamp of all records; -1 if no record has one."""
        if not self.files_exist:
            return -1
        return max((segment.largest_timestamp for segment in self.segments if segment.size), default=-1)

    def aborted_transactions(self, offset: int, bound: int, data: FetchData | None = None) -> list[AbortedTransaction]:
        """The aborted transactions that overlap [offset, bound). If `data` ends before `bound`, only those that may
        overlap `data`.

        Raises CorruptData if they are not known: aborted records must not be served as committed.
        """
        if data is not None and data.segment is not None:
            behind = data.segment.offset_index.offset_behind(data.end_position)
            bound = bound if behind is None else min(bound, behind)
        found: list[AbortedTransaction] = []
        for segment in self.segments[segment_at(self.segments, offset) :]:
            segment.require_transaction_index()
            if segment.transaction_index.collect(offset, bound, found):
                break
        return found

    # Durability

    def files_to_sync(self, start: int, end: int, *, closing: bool = False) -> list[OpenFile]:
        """The files that hold [start, end): logs, and the indexes of segments that end at or before `end`. With
        `closing`, also the indexes of the active segment."""
        opened: list[OpenFile] = []
        if self.unsynced_directory and self.topic_id is not None:
            opened.append(self.cache.get(self.path(PARTITION_METADATA)))
        # A segment that was flushed before it was closed has indexes that were not.
        first = segment_at(self.segments, max(start - 1, 0))
        for index in range(first, len(self.segments)):
            segment = self.segments[index]
            if segment.base_offset >= end and index > first:
                break
            is_closed = closing or (index + 1 < len(self.segments) and self.segments[index + 1].base_offset <= end)
            opened += segment.files_to_sync(with_indexes=is_closed)
        return opened

    def forget_files(self) -> None:
        """Drop every open file handle, before the directory is renamed or when the log is closed."""
        self.cache.forget_files_in(self.directory)

    def rename_directory(self, directory: str) -> None:
        """Move the whole log to `directory` (in the same log directory)."""
        self.forget_files()
        if self.files_exist:
            self.cache.files.rename(self.directory, directory)
        self.directory = directory
        for segment in self.segments:
            segment.directory_renamed(directory)
