"""One segment of a log: a `.log` file of batches and its indexes, all named by the base offset.

The segment keeps its size and largest timestamp in memory. Files are opened through the cache on demand, index objects
on first use. What a crash leaves behind (a torn batch, an incomplete index) is handled by `segment_recovery`; no other
code reads beyond `size`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import CorruptData, StorageError
from kraft.protocol.records.record_batch import CorruptBatch, RecordBatch
from kraft.storage.batch_walk import BatchSpan, batch_at, find_batch, read_checked, walk_headers, walk_whole
from kraft.storage.file_cache import FileCache, OpenFile
from kraft.storage.indexes.offset_index import OffsetIndex
from kraft.storage.indexes.time_index import NO_TIMESTAMP, TimeIndex
from kraft.storage.indexes.transaction_index import TransactionIndex
from kraft.storage.log_config import LogConfig
from kraft.storage.log_files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file_name,
)
from kraft.world.ports import Buffer

RELATIVE_OFFSET_MAX = 0x7FFFFFFF
LARGE_BATCH_BYTES = 8192
"""A distance of two adjacent index entries above this (twice the default index.interval.bytes) is due to a large batch,
which has an entry of its own."""
UNKNOWN = -2
"""A timestamp that is not read from disk yet."""


class SegmentBounds:
    """Bounds within which a segment with records stays open under `config`: its size in bytes, the last offset and, for
    batches with timestamps, the largest timestamp. All are inclusive."""

    __slots__ = ("config", "offset_max", "size_max", "timestamp_max")

    def __init__(self, config: LogConfig, size_max: int, offset_max: int, timestamp_max: int) -> None:
        self.config = config
        self.size_max = size_max
        self.offset_max = offset_max
        self.timestamp_max = timestamp_max

    def takes(self, config: LogConfig, size: int, last_offset: int, max_timestamp: int) -> bool:
        """Whether a batch that grows the segment to `size` bytes fits without a roll. False also if that is
        not known."""
        return (
            config is self.config
            and size <= self.size_max
            and last_offset <= self.offset_max
            and 0 <= max_timestamp <= self.timestamp_max
        )


class LogSegment:
    """Batches from `base_offset` on. `largest_timestamp` is -1 while no record has one."""

    __slots__ = (
        "_bytes_since_index",
        "_cache",
        "_directory",
        "_largest_timestamp",
        "_largest_timestamp_offset",
        "_log_path",
        "_newest",
        "_offset_index",
        "_rolling_timestamp",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "bounds",
        "created_ms",
        "size",
        "suffix",
        "transaction_index_is_whole",
    )

    def __init__(
        self,
        cache: FileCache,
        directory: str,
        base_offset: int,
        *,
        size: int,
        created_ms: int,
        fresh: bool,
        suffix: str = "",
    ) -> None:
        """`fresh` segments have no files yet. `suffix` is "" or one of .cleaned, .swap."""
        self._cache = cache
        self._directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.suffix = suffix
        self._log_path = self.path(LOG_SUFFIX)
        self._bytes_since_index = 0
        self._newest: BatchSpan | None = None
        """The last batch, if this process appended it, for waiting consumers."""
        known = NO_TIMESTAMP if fresh else UNKNOWN
        self._largest_timestamp = known
        self._largest_timestamp_offset = base_offset
        self._rolling_timestamp = known
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        self.bounds: SegmentBounds | None = None
        """The result of the last `retention.open_bounds`; None once it may be outdated."""
        self.transaction_index_is_whole = True
        """Whether the index has every aborted transaction of the segment. Only recovery can find that it does not."""

    def path(self, suffix: str) -> str:
        return f"{self._directory}/{offset_file_name(self.base_offset, suffix)}{self.suffix}"

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index. Raises CorruptData if the file cannot belong to this segment."""
        if self._offset_index is None:
            index = OffsetIndex(self._cache, self.path(OFFSET_INDEX_SUFFIX), self.base_offset)
            index.check(self.size)
            self._offset_index, self.bounds = index, None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index. Raises CorruptData if the file cannot belong to this segment."""
        if self._time_index is None:
            index = TimeIndex(self._cache, self.path(TIME_INDEX_SUFFIX), self.base_offset)
            index.check()
            self._time_index, self.bounds = index, None
        return self._time_index

    @property
    def transaction_index(self) -> TransactionIndex:
        if self._transaction_index is None:
            self._transaction_index = TransactionIndex(
                self._cache, self.path(TRANSACTION_INDEX_SUFFIX), self.base_offset
            )
        return self._transaction_index

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp of a record in the segment, ms; -1 if no record has one."""
        if self._largest_timestamp == UNKNOWN:
            self._largest_timestamp, self._largest_timestamp_offset = self.time_index.last_entry()
        return self._largest_timestamp

    @property
    def rolling_timestamp(self) -> int:
        """Largest timestamp of the first batch, from which the segment's age is counted; -1 if there is none."""
        if self._rolling_timestamp == UNKNOWN:
            first = next(walk_headers(self.open_log().file, 0, self.size), None)
            self._rolling_timestamp = NO_TIMESTAMP if first is None else first[1].max_timestamp
        return self._rolling_timestamp

    def open_log(self) -> OpenFile:
        """Open the log file for reading. Raises OSError."""
        return self._cache.get(self._log_path)

    def make_log(self) -> OpenFile:
        """Open the log file for writing. Creates it if it is missing. Raises OSError."""
        return self._cache.make(self._log_path)

    def make_ready(self, size: int, index_interval_bytes: int) -> OpenFile:
        """Return the file for a write of `size` bytes, created if missing. Also reads what `appended` will need of the
        index files, because `appended` must not fail. Raises OSError, CorruptData."""
        if self._largest_timestamp == UNKNOWN:
            self._largest_timestamp, self._largest_timestamp_offset = self.time_index.last_entry()
        is_known = self._offset_index is not None and self._time_index is not None and self._time_index.knows_last
        if not is_known and self._bytes_since_index + size > index_interval_bytes:
            _ = self.offset_index, self.time_index.last_entry()
        return self._cache.make(self._log_path)

    def settle(self, opened: OpenFile) -> None:
        """Called after a thread has finished writing through `opened`."""
        self._cache.forget_other(self._log_path, opened)

    def appended(
        self, size: int, first_offset: int, last_offset: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """Update the segment after a batch of `size` bytes was written at the end of the file."""
        position = self.size
        if max_timestamp > self._largest_timestamp:
            if self._largest_timestamp == UNKNOWN:
                self._largest_timestamp, self._largest_timestamp_offset = self.time_index.last_entry()
            if max_timestamp > self._largest_timestamp:
                self._largest_timestamp = max_timestamp
                self._largest_timestamp_offset = last_offset
        if position == 0:
            self._rolling_timestamp = max_timestamp
        if self._bytes_since_index > index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.largest_timestamp, self._largest_timestamp_offset)
            self._bytes_since_index = 0
            self.bounds = None
        self._bytes_since_index += size
        self._newest = BatchSpan(first_offset, last_offset, position, size)
        self.size = position + size

    def index_is_full(self, segment_index_bytes: int) -> bool:
        """Whether one more entry would not fit in segment.index.bytes."""
        offsets, times = self._offset_index, self._time_index
        return (offsets is not None and offsets.size + 8 > segment_index_bytes) or (
            times is not None and times.size + 12 > segment_index_bytes - 12
        )

    def find(self, offset: int) -> BatchSpan | None:
        """Return the first batch whose last offset is at least `offset`. Raises CorruptData if damage hides it."""
        newest = self._newest
        if (
            newest is not None
            and newest.base_offset <= offset <= newest.last_offset
            and newest.position + newest.size == self.size
        ):
            return newest
        file, ((known, position), behind) = self.open_log().file, self.offset_index.around(offset)
        if behind is not None and known < offset and behind[1] - position > LARGE_BATCH_BYTES:
            # Every batch as large as this has an entry: the next one is likely to be it.
            found = batch_at(file, behind[1], self.size)
            if found is not None and found.base_offset <= offset <= found.last_offset:
                return found
        return find_batch(file, position, self.size, offset)

    def next_offset(self) -> int:
        """One past the last offset in the segment; the base offset if it is empty."""
        return self.end()[0]

    def end(self) -> tuple[int, int]:
        """(next offset, position where the last whole batch ends). The position is less than `size` if the tail is
        torn."""
        end_offset, end_position = self.base_offset, self.offset_index.last_entry()[1]
        for position, batch in walk_headers(self.open_log().file, end_position, self.size):
            end_offset, end_position = batch.next_offset, position + batch.size
        return end_offset, end_position

    def find_batch_by_timestamp(self, timestamp: int, start_offset: int) -> RecordBatch | None:
        """Return the first batch that ends at `start_offset` or later and whose header's largest timestamp is at least
        `timestamp`. Raises CorruptData."""
        position = self.offset_index.lookup(max(self.time_index.lookup(timestamp)[1], start_offset))[1]
        file = self.open_log().file
        for at, header in walk_whole(file, position, self.size):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                try:
                    return read_checked(file, at, header.size)
                except CorruptBatch as problem:
                    raise CorruptData(f"{self._log_path}: the batch at position {at}: {problem}") from problem
        return None

    def close_for_appends(self) -> None:
        """Finish a rolled segment: add the last time index entry and write the indexes to their files."""
        if self.size:
            self.time_index.maybe_append(self.largest_timestamp, self._largest_timestamp_offset)
        self._newest = None
        self.spill_indexes()

    @property
    def indexes_say_nothing(self) -> bool:
        """Whether the offset index is empty and no transaction was aborted. A scan of the headers yields the same, so a
        clean close need not write the indexes."""
        return self.offset_index.count == 0 and self.transaction_index_is_whole and self.transaction_index.count == 0

    def index_by_headers(self, index_interval_bytes: int) -> tuple[int, bool]:
        """Build the sparse indexes in memory from batch headers, for a segment without index files. Returns the next
        offset, and whether a batch has a producer id.

        `size` becomes the end of the last whole batch. Without a control batch the transaction index is known to be
        empty; with one it is unknown.
        """
        end, end_offset, has_producers = self.size, self.base_offset, False
        self._reset_indexes()
        for _, batch in walk_headers(self.open_log().file, 0, end):
            self.appended(batch.size, batch.base_offset, batch.last_offset, batch.max_timestamp, index_interval_bytes)
            end_offset = batch.next_offset
            if batch.has_producer_id:
                has_producers = True
                self.transaction_index_is_whole &= not batch.is_control
        return end_offset, has_producers

    def spill_indexes(self) -> None:
        """Write pending index entries to the files, and create the files of empty indexes. A transaction index that may
        be incomplete is not created. Raises OSError."""
        self.offset_index.open_for_sync()
        self.time_index.open_for_sync()
        if self.transaction_index_is_whole:
            self.transaction_index.open_for_sync()

    def files_to_sync(self, *, with_indexes: bool) -> list[OpenFile]:
        """The files that a flush of this segment must sync. The indexes are needed once the segment is closed, because
        it is then no longer read by recovery."""
        opened = [self.make_log()]
        if with_indexes:
            opened += [self.offset_index.open_for_sync(), self.time_index.open_for_sync()]
            if self.transaction_index_is_whole:
                opened.append(self.transaction_index.open_for_sync())
        return opened

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that ends at or beyond `offset`. A batch that spans `offset` is dropped whole."""
        opened = self.make_log()
        self.bounds = None
        span = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if span is not None:
            opened.file.truncate(span.position)
            self.size = span.position
        self._newest = None
        self._bytes_since_index = 0
        self._rolling_timestamp = UNKNOWN if self.size else NO_TIMESTAMP
        self._largest_timestamp, self._largest_timestamp_offset = self.time_index.last_entry()
        for _, batch in walk_headers(
            opened.file, self.offset_index.lookup(self._largest_timestamp_offset)[1], self.size
        ):
            if batch.max_timestamp > self._largest_timestamp:
                self._largest_timestamp, self._largest_timestamp_offset = batch.max_timestamp, batch.last_offset

    def begin_recovery(self) -> OpenFile:
        """Delete the indexes. `appended` rebuilds them batch by batch while the log is read from its start. See
        `segment_recovery`."""
        opened = self.open_log()
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            self._remove(self.path(suffix))
        self._reset_indexes()
        return opened

    def _reset_indexes(self) -> None:
        self._offset_index = OffsetIndex(self._cache, self.path(OFFSET_INDEX_SUFFIX), self.base_offset, stored_bytes=0)
        self._time_index = TimeIndex(self._cache, self.path(TIME_INDEX_SUFFIX), self.base_offset, stored_bytes=0)
        self._transaction_index = TransactionIndex(
            self._cache, self.path(TRANSACTION_INDEX_SUFFIX), self.base_offset, stored_bytes=0
        )
        self.transaction_index_is_whole = True
        self._newest = self.bounds = None
        self.size = self._bytes_since_index = 0
        self._largest_timestamp, self._largest_timestamp_offset, self._rolling_timestamp = (
            NO_TIMESTAMP,
            self.base_offset,
            NO_TIMESTAMP,
        )

    def _remove(self, path: str) -> None:
        self._cache.forget(path)
        if self._cache.files.exists(path):
            self._cache.files.remove(path)

    def change_suffix(self, suffix: str) -> list[str]:
        """Rename every file to end in `suffix` ("" for the plain names), the log first. Returns the new names."""
        renamed = []
        for kind in SEGMENT_SUFFIXES:
            source = self.path(kind)
            self._cache.forget(source)
            if self._cache.files.exists(source):
                target = source.removesuffix(self.suffix) + suffix
                self._cache.files.rename(source, target)
                renamed.append(target)
        self.suffix = suffix
        self._take_paths()
        return renamed

    def directory_renamed(self, directory: str) -> None:
        """Update the paths after the directory was renamed."""
        self._directory = directory
        self._take_paths()

    def _take_paths(self) -> None:
        self._log_path = self.path(LOG_SUFFIX)
        self.bounds = None
        for index, kind in zip(
            (self._offset_index, self._time_index, self._transaction_index), SEGMENT_SUFFIXES[1:], strict=True
        ):
            if index is not None:
                index.path = self.path(kind)

    def delete_files(self) -> None:
        """Remove every file immediately."""
        for kind in SEGMENT_SUFFIXES:
            self._remove(self.path(kind))

    def modified_ms(self) -> int:
        return self._cache.files.status(self._log_path).modified_ms

    @property
    def has_index_files(self) -> bool:
        """Whether the sparse indexes exist as files, as those of a closed segment do."""
        return self._cache.files.exists(self.path(OFFSET_INDEX_SUFFIX))

    @property
    def has_transaction_index_file(self) -> bool:
        return self._cache.files.exists(self.path(TRANSACTION_INDEX_SUFFIX))

    def require_transaction_index(self) -> None:
        """Raises CorruptData unless the aborted transactions of this segment are known completely."""
        if not self.transaction_index_is_whole:
            raise CorruptData(f"{self.path(TRANSACTION_INDEX_SUFFIX)} may lack aborted transactions")

    def check_indexes(self) -> None:
        """Raises CorruptData unless both sparse indexes exist and are plausible."""
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if not self._cache.files.exists(self.path(suffix)):
                raise CorruptData(f"{self.path(suffix)} is missing")
        self.offset_index.check(self.size)
        self.time_index.check()
        if self._cache.files.exists(self.path(TRANSACTION_INDEX_SUFFIX)):
            self.transaction_index.check()

    def __repr__(self) -> str:
        return f"LogSegment({self._log_path}, size={self.size})"


def write_at_end(opened: OpenFile, size: int, buffers: Sequence[Buffer]) -> None:
    """Append to a segment's file of `size` bytes, all or nothing. Touches only the file, so it may run in a thread;
    `LogSegment.appended` follows on the loop.

    Raises OSError with the file unchanged. Raises StorageError if the file has another size or could not be restored.
    """
    if opened.file.size() != size:
        raise StorageError(
            f"{opened.file.path} has {opened.file.size()} bytes, but its log ends at {size}: an append would "
            "not follow the last batch"
        )
    try:
        opened.file.append(buffers)
    except OSError as problem:
        try:
            truncate_to_size(opened, size)
        except StorageError as again:
            raise again from problem
        raise


def truncate_to_size(opened: OpenFile, size: int) -> None:
    """Drop the bytes beyond `size`. Raises StorageError."""
    try:
        opened.file.truncate(size)
    except OSError as problem:
        raise StorageError(f"{opened.file.path}: an append could not be undone: {problem}") from problem
