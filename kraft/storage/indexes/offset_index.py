"""The sparse offset index of a segment: one entry of 8 bytes (relative offset i32, position i32) per
index.interval.bytes of log.

An entry names the last offset of a batch and the position where that batch starts. A lookup returns the last entry not
beyond the target; the reader scans forward from there.
"""

from __future__ import annotations

from struct import Struct

from kraft.common.errors import CorruptData
from kraft.storage.indexes.index_file import IndexFile


class OffsetIndex(IndexFile):
    """The `.index` file of a segment."""

    ENTRY = Struct(">ii")
    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        """Append an entry. Offset and position must be greater than those of the last entry."""
        self.append_raw(offset - self.base_offset, position)

    def entry(self, index: int) -> tuple[int, int]:
        """(offset, position)."""
        relative, position = self.raw(index)
        return self.base_offset + relative, position

    def last_entry(self) -> tuple[int, int]:
        """(offset, position) of the last entry; the start of the segment when there is none."""
        count = self.count
        return self.entry(count - 1) if count else (self.base_offset, 0)

    def lookup(self, offset: int) -> tuple[int, int]:
        """(offset, position) of the last entry whose offset is at most `offset`; the start of the segment when there
        is none."""
        point = self._first_beyond(0, offset - self.base_offset, least=0)
        return self.entry(point - 1) if point else (self.base_offset, 0)

    def around(self, offset: int) -> tuple[tuple[int, int], tuple[int, int] | None]:
        """The entry that `lookup` finds, and the next entry or None."""
        point = self._first_beyond(0, offset - self.base_offset, least=0)
        behind = self.entry(point) if point < self.count else None
        return self.entry(point - 1) if point else (self.base_offset, 0), behind

    def offset_behind(self, position: int) -> int | None:
        """The offset of the first entry at or behind `position`, or None. Every batch that begins before `position` has
        lower offsets."""
        point = self._first_beyond(1, position - 1, least=0)
        return self.entry(point)[0] if point < self.count else None

    def truncate_to(self, offset: int) -> None:
        """Drop every entry at or beyond `offset`."""
        self.truncate_to_entries(self._first_beyond(0, offset - self.base_offset - 1, least=0))

    def check(self, log_size: int) -> None:
        """Raises CorruptData if the last entry is impossible for a log of `log_size` bytes."""
        if self.count:
            relative, position = self.raw(self.count - 1)
            if (
                relative < 0
                or not 0 <= position < log_size
                or (self.count > 1 and self.raw(self.count - 2)[0] >= relative)
            ):
                raise CorruptData(
                    f"{self.path}: the last entry ({relative}, {position}) is impossible for a log of {log_size} bytes"
                )
