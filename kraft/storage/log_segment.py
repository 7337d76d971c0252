"""One segment of a log: a `.log` file of batches and the indexes over it, all named by the base offset.

The segment knows its size and largest timestamp in memory; files are opened through the cache when they are needed,
index objects are made on first use. What a crash may leave behind (a torn batch, an index that lags) is
`segment_recovery`'s business; nobody else reads beyond `size`.
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
"""Twice the default index.interval.bytes."""
UNKNOWN = -2
"""A timestamp that was not read from disk yet."""


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
        """Whether the segment stays open with a batch that brings it to `size` bytes. False where that is not known."""
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
        """The batch at the end, where this process has put it there: consumers that wait ask for it."""
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
        """Whether every transaction aborted in here is in the index. Only a start finds out that it is not known."""

    def path(self, suffix: str) -> str:
        return f"{self._directory}/{offset_file_name(self.base_offset, suffix)}{self.suffix}"

    @property
    def offset_index(self) -> OffsetIndex:
        """Raises CorruptData when the file cannot be the index of this segment."""
        if self._offset_index is None:
            index = OffsetIndex(self._cache, self.path(OFFSET_INDEX_SUFFIX), self.base_offset)
            index.check(self.size)
            self._offset_index, self.bounds = index, None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """Raises CorruptData when the file cannot be the index of this segment."""
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
        """Largest timestamp of a record in here, ms; -1 when none has one."""
        if self._largest_timestamp == UNKNOWN:
            self._largest_timestamp, self._largest_timestamp_offset = self.time_index.last_entry()
        return self._largest_timestamp

    @property
    def rolling_timestamp(self) -> int:
        """Max timestamp of the first batch, from which the segment's age is counted; -1 when there is none."""
        if self._rolling_timestamp == UNKNOWN:
            first = next(walk_headers(self.open_log().file, 0, self.size), None)
            self._rolling_timestamp = NO_TIMESTAMP if first is None else first[1].max_timestamp
        return self._rolling_timestamp

    def open_log(self) -> OpenFile:
        """For reading what is there. Raises OSError."""
        return self._cache.get(self._log_path)

    def make_log(self) -> OpenFile:
        """For writing: the file of a segment that has none yet is made. Raises OSError."""
        return self._cache.make(self._log_path)

    def make_ready(self, size: int, index_interval_bytes: int) -> OpenFile:
        """The file to write `size` bytes to, made if there is none; and what `appended`, which comes then and must not
        fail, needs of the indexes' files. Raises OSError, CorruptData."""
        if self._largest_timestamp == UNKNOWN:
            self._largest_timestamp, self._largest_timestamp_offset = self.time_index.last_entry()
        is_known = self._offset_index is not None and self._time_index is not None and self._time_index.knows_last
        if not is_known and self._bytes_since_index + size > index_interval_bytes:
            _ = self.offset_index, self.time_index.last_entry()
        return self._cache.make(self._log_path)

    def settle(self, opened: OpenFile) -> None:
        """A write through `opened`, in a thread, is over."""
        self._cache.forget_other(self._log_path, opened)

    def appended(
        self, size: int, first_offset: int, last_offset: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """Take note of a batch of `size` bytes now at the end of the file."""
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
        """The first batch whose last offset is at least `offset`. Raises CorruptData where damage hides it."""
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
        """One past the last offset in here; the base offset when it is empty."""
        return self.end()[0]

    def end(self) -> tuple[int, int]:
        """(next offset, position where the last whole batch ends): the position is less than `size` when the tail is
        torn."""
        end_offset, end_position = self.base_offset, self.offset_index.last_entry()[1]
        for position, batch in walk_headers(self.open_log().file, end_position, self.size):
            end_offset, end_position = batch.next_offset, position + batch.size
        return end_offset, end_position

    def find_batch_by_timestamp(self, timestamp: int, start_offset: int) -> RecordBatch | None:
        """The first batch that ends at `start_offset` or later and has a record not earlier than `timestamp`, as its
        header says. Raises CorruptData."""
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
        """The segment is rolled: the time index gets its last word, the indexes go to their files."""
        if self.size:
            self.time_index.maybe_append(self.largest_timestamp, self._largest_timestamp_offset)
        self._newest = None
        self.spill_indexes()

    @property
    def indexes_say_nothing(self) -> bool:
        """No entry in the offset index, and nothing aborted: a walk over the headers tells as much, so a clean close
        need not write the indexes."""
        return self.offset_index.count == 0 and self.transaction_index_is_whole and self.transaction_index.count == 0

    def index_by_headers(self, index_interval_bytes: int) -> tuple[int, bool]:
        """Make the sparse indexes in memory from the batches' headers, for a segment whose files lack them. The next
        offset, and whether a batch has a producer id.

        `size` becomes the end of the last whole batch. The transaction index is known to be empty where there is no
        control batch, and unknown where there is one.
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
        """Write what the indexes hold in memory. They exist from now on, if only as empty files, but for a
        transaction index that is not known to be whole. Raises OSError."""
        self.offset_index.open_for_sync()
        self.time_index.open_for_sync()
        if self.transaction_index_is_whole:
            self.transaction_index.open_for_sync()

    def files_to_sync(self, *, with_indexes: bool) -> list[OpenFile]:
        """What a flush of this segment must sync. The indexes matter once the segment will not be recovered any
        more, that is when it is closed."""
        opened = [self.make_log()]
        if with_indexes:
            opened += [self.offset_index.open_for_sync(), self.time_index.open_for_sync()]
            if self.transaction_index_is_whole:
                opened.append(self.transaction_index.open_for_sync())
        return opened

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that ends at or beyond `offset` (whole batches: one that spans it goes too)."""
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
        """Forget the indexes: `appended` makes them anew, batch by batch, while the log is read from its start. See
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
        """The directory has another name now."""
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
        """Remove every file at once."""
        for kind in SEGMENT_SUFFIXES:
            self._remove(self.path(kind))

    def modified_ms(self) -> int:
        return self._cache.files.status(self._log_path).modified_ms

    @property
    def has_index_files(self) -> bool:
        """Whether the sparse indexes have files, as those of a closed segment do."""
        return self._cache.files.exists(self.path(OFFSET_INDEX_SUFFIX))

    @property
    def has_transaction_index_file(self) -> bool:
        return self._cache.files.exists(self.path(TRANSACTION_INDEX_SUFFIX))

    def require_transaction_index(self) -> None:
        """Raises CorruptData unless it is known which transactions were aborted in here."""
        if not self.transaction_index_is_whole:
            raise CorruptData(f"{self.path(TRANSACTION_INDEX_SUFFIX)} is not known to have every aborted transaction")

    def check_indexes(self) -> None:
        """Raises CorruptData unless both sparse indexes exist and can be true."""
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
    """Append to a segment's file of `size` bytes, all or nothing. Touches only the file, so a thread may do it;
    `LogSegment.appended` follows on the loop.

    Raises OSError with the file as it was; StorageError when the file has another size or could not be restored.
    """
    if opened.file.size() != size:
        raise StorageError(
            f"{opened.file.path} has {opened.file.size()} bytes where its log ends at {size}: what is "
            "appended would be read at another place"
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
    """Drop what was written beyond `size`. Raises StorageError."""
    try:
        opened.file.truncate(size)
    except OSError as problem:
        raise StorageError(f"{opened.file.path}: an append could not be undone: {problem}") from problem
