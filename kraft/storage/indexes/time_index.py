"""The time index of a segment: entries of 12 bytes (timestamp i64, relative offset i32), both strictly ascending.

An entry (t, o) means that no record up to offset o has a timestamp beyond t. The last entry of a closed segment is its
largest timestamp.
"""

from __future__ import annotations

from struct import Struct

from kraft.common.errors import CorruptData
from kraft.storage.indexes.index_file import IndexFile

NO_TIMESTAMP = -1


class TimeIndex(IndexFile):
    """The `.timeindex` file of a segment."""

    ENTRY = Struct(">qi")
    __slots__ = ()

    def entry(self, index: int) -> tuple[int, int]:
        """(timestamp in ms, offset)."""
        timestamp, relative = self.raw(index)
        return timestamp, self.base_offset + relative

    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) when there is none."""
        count = self.count
        return self.entry(count - 1) if count else (NO_TIMESTAMP, self.base_offset)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if it is later than the last in both fields."""
        last_timestamp, last_offset = self.last_entry()
        if timestamp > last_timestamp and (offset > last_offset or not self.count):
            self.append_raw(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """(timestamp, offset) of the last entry whose timestamp is at most `timestamp`; (-1, base offset) when there
        is none."""
        point = self._first_beyond(0, timestamp)
        return self.entry(point - 1) if point else (NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop every entry at or beyond `offset`."""
        self.truncate_to_entries(self._first_beyond(1, offset - self.base_offset - 1, least=0))

    def check(self) -> None:
        """Raises CorruptData if the last entry is impossible."""
        if self.count:
            timestamp, relative = self.raw(self.count - 1)
            if timestamp < 0 or relative < 0 or (self.count > 1 and self.raw(self.count - 2)[0] >= timestamp):
                raise CorruptData(
                    f"{self.path}: the last entry (timestamp {timestamp}, relative offset {relative}) is invalid"
                )
