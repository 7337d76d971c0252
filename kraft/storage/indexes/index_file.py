"""A file of fixed-size entries that grows only at its end: the common part of the three indexes of a segment.

New entries stay in memory and are written to the file in groups, so that an append to a log is one write, not three.
Losing them in a crash is harmless: recovery rebuilds the indexes of every segment that was not completely flushed.
Kafka preallocates its index files while they grow. Here the files hold exactly their entries at all times, as Kafka's
do after a roll.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

from kraft.common.errors import CorruptData
from kraft.storage.file_cache import FileCache, OpenFile
from kraft.storage.storage_failure import PASSING_ERRORS
from kraft.world.ports import FileSystem

SPILL_BYTES = 4096
BLOCK_BYTES = 4096
"""Bytes read and cached together: a sequential reader needs the same entries repeatedly."""
GUESSES_MAX = 3
"""Interpolation steps before bisection. Offsets and positions usually grow evenly."""


class IndexFile:
    """An index file. Subclasses define the `ENTRY` format, the meaning of entries and how they are searched."""

    ENTRY: ClassVar[Struct]
    __slots__ = ("_cache", "_last", "_pending", "_stored", "base_offset", "path")

    def __init__(self, cache: FileCache, path: str, base_offset: int, *, stored_bytes: int | None = None) -> None:
        """`stored_bytes` is the size of the file if known (0: no file). Raises CorruptData if it is not a multiple of
        the entry size."""
        self._cache = cache
        self.path = path
        self.base_offset = base_offset
        size = self.ENTRY.size
        if stored_bytes is None:
            stored_bytes = cache.files.status(path).size if cache.files.exists(path) else 0
        if stored_bytes % size:
            raise CorruptData(f"{path}: {stored_bytes} bytes are not a multiple of the entry size, {size}")
        self._stored = stored_bytes // size
        self._pending = bytearray()
        self._last: tuple[int, ...] | None = None
        """The last entry, if known, so that an append does not read the file."""

    @property
    def files(self) -> FileSystem:
        return self._cache.files

    @property
    def count(self) -> int:
        return self._stored + len(self._pending) // self.ENTRY.size

    @property
    def size(self) -> int:
        """Size in bytes, including entries not yet written to the file."""
        return self._stored * self.ENTRY.size + len(self._pending)

    @property
    def knows_last(self) -> bool:
        """Whether the last entry is available without reading the file."""
        return self._last is not None or not self._stored

    def raw(self, index: int) -> tuple[int, ...]:
        """The fields of entry `index`."""
        size = self.ENTRY.size
        if self._last is not None and index == self.count - 1:
            return self._last
        if index >= self._stored:
            return self.ENTRY.unpack_from(self._pending, (index - self._stored) * size)
        first, data = self._block(index)
        found = self.ENTRY.unpack_from(data, (index - first) * size)
        if index == self.count - 1:
            self._last = found
        return found

    def append_raw(self, *fields: int) -> None:
        self._pending += self.ENTRY.pack(*fields)
        self._last = fields
        if len(self._pending) >= SPILL_BYTES:
            self._spill_if_there_is_room()

    def spill(self) -> None:
        """Write the pending entries to the file. On OSError they are kept in memory."""
        if not self._pending:
            return
        file = self._cache.make(self.path).file
        size = self._stored * self.ENTRY.size
        try:
            file.append((bytes(self._pending),))
        except OSError:
            file.truncate(size)
            raise
        self._stored += len(self._pending) // self.ENTRY.size
        self._pending.clear()

    def _spill_if_there_is_room(self) -> None:
        """Write pending entries, but ignore a temporary error such as a full disk or no free descriptor. It must not
        fail an append whose records are written. The entries stay in memory, segment.index.bytes at most."""
        try:
            self.spill()
        except OSError as problem:
            if problem.errno not in PASSING_ERRORS:
                raise

    def replaced(self, content: bytes) -> None:
        """Reset the index after its file was replaced by one with `content`."""
        self._cache.forget(self.path)
        self._stored = len(content) // self.ENTRY.size
        self._pending.clear()
        self._last = None

    def truncate_to_entries(self, count: int) -> None:
        """Keep the first `count` entries."""
        self._last = None
        size = self.ENTRY.size
        if count >= self._stored:
            del self._pending[(count - self._stored) * size :]
            return
        self._pending.clear()
        opened = self._cache.get(self.path)
        opened.kept = None
        opened.file.truncate(count * size)
        self._stored = count

    def open_for_sync(self) -> OpenFile:
        """Write pending entries and return the file for a flush. Creates the file even for an empty index, as Kafka
        does."""
        self.spill()
        return self._cache.make(self.path)

    def _block(self, index: int) -> tuple[int, bytes]:
        """Return a block of whole stored entries around `index`, and the number of its first entry. Raises CorruptData,
        OSError."""
        size, opened = self.ENTRY.size, self._cache.get(self.path)
        if opened.kept is not None:
            owner, first, data = opened.kept
            if owner is self and first <= index < first + len(data) // size:
                return first, data
        count = BLOCK_BYTES // size
        first = index // count * count
        data = opened.file.pread(min(count, self._stored - first) * size, first * size)
        if len(data) < (index - first + 1) * size:
            raise CorruptData(f"{self.path}: entry {index} of {self._stored} is missing")
        opened.kept = self, first, data
        return first, data

    def _first_beyond(self, field: int, bound: int, least: int | None = None) -> int:
        """Return the first entry whose `field` is greater than `bound`, or the entry count. `least` is the lowest
        possible value, given for a field that grows evenly."""
        stored, size = self._stored, self.ENTRY.size
        if self._pending and (not stored or self.raw(stored)[field] <= bound):
            return stored + self._first_in(self._pending, 0, len(self._pending) // size, field, bound)
        if self._last is not None and not self._pending and self._last[field] <= bound:
            return stored
        low, high = 0, stored
        low_value = least
        high_value = self.raw(stored)[field] if self._pending else None if self._last is None else self._last[field]
        kept = self._cache.get(self.path).kept if stored else None
        index = kept[1] if kept is not None and kept[0] is self else -1
        guesses = 0
        while low < high:
            if not low <= index < high:
                index = (low + high) // 2
                if low_value is not None and high_value is not None and guesses < GUESSES_MAX:
                    index = low + (bound - low_value) * (high - low) // max(1, high_value - low_value)
                    index = min(max(index, low), high - 1)
                guesses += 1
            first, data = self._block(index)
            start, end = max(low, first), min(high, first + len(data) // size)
            first_value = self.ENTRY.unpack_from(data, (start - first) * size)[field]
            last_value = self.ENTRY.unpack_from(data, (end - 1 - first) * size)[field]
            if first_value > bound:
                high, high_value = start, first_value
            elif last_value <= bound:
                low, low_value = end, last_value
            else:
                return first + self._first_in(data, start - first, end - first, field, bound)
            index = -1
        return low

    def _first_in(self, data: bytes | bytearray, low: int, high: int, field: int, bound: int) -> int:
        """Search like `_first_beyond`, among the entries [low, high) in memory."""
        unpack_from, size = self.ENTRY.unpack_from, self.ENTRY.size
        while low < high:
            middle = (low + high) // 2
            if unpack_from(data, middle * size)[field] <= bound:
                low = middle + 1
            else:
                high = middle
        return low
