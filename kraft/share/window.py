"""The records in flight of one share partition, as ranges of records in the same state.

The ranges are contiguous from `start` to before `end`, so each range stores only its first offset. The ranges are kept
in arrays: a range of a single record takes 25 bytes. Pure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

ACQUIRED: Final = 1
CHANGING: Final = 16
"""Acknowledged, released or archived by a request whose result is not durable yet."""

NO_OWNER: Final = 0


class Tile(NamedTuple):
    """A range of records in one state, from `first` to before `end`. Acquired and changing records have the `owner` and
    the `deadline_ms` of their lock."""

    first: int
    end: int
    state: int
    delivery_count: int = 0
    owner: int = NO_OWNER
    deadline_ms: int = 0


class Window:
    """The ranges of one share partition."""

    __slots__ = ("_counts", "_deadlines", "_firsts", "_owners", "_states", "end", "start")

    def __init__(self, start: int, tiles: Iterable[Tile] = ()) -> None:
        """`tiles` must be contiguous from `start` on."""
        self.start = self.end = start
        self._firsts = array("q")
        self._states = bytearray()
        self._counts = array("H")
        self._owners = array("i")
        self._deadlines = array("q")
        self.extend(tiles)

    def __len__(self) -> int:
        """The number of tiles."""
        return len(self._firsts)

    @property
    def record_count(self) -> int:
        return self.end - self.start

    def extend(self, tiles: Iterable[Tile]) -> None:
        """Append tiles, which must continue the window."""
        for tile in tiles:
            assert tile.first == self.end < tile.end, (tile, self.end)
            if self._firsts and self._tile(len(self._firsts) - 1)[2:] == tile[2:]:
                self.end = tile.end
                continue
            self._firsts.append(tile.first)
            self._states.append(tile.state)
            self._counts.append(tile.delivery_count)
            self._owners.append(tile.owner)
            self._deadlines.append(tile.deadline_ms)
            self.end = tile.end

    def tiles(self, first: int | None = None, end: int | None = None) -> Iterator[Tile]:
        """The tiles from `first` to before `end`, cut at both. The window must not change during the iteration."""
        first = self.start if first is None else max(first, self.start)
        end = self.end if end is None else min(end, self.end)
        if first >= end:
            return
        index = bisect_right(self._firsts, first) - 1
        while index < len(self._firsts) and self._firsts[index] < end:
            tile = self._tile(index)
            if tile.first < first or tile.end > end:
                tile = tile._replace(first=max(tile.first, first), end=min(tile.end, end))
            yield tile
            index += 1

    def _tile(self, index: int) -> Tile:
        end = self._firsts[index + 1] if index + 1 < len(self._firsts) else self.end
        return Tile(
            self._firsts[index],
            end,
            self._states[index],
            self._counts[index],
            self._owners[index],
            self._deadlines[index],
        )

    def replace(self, tiles: list[Tile]) -> None:
        """Replace a part of the window by contiguous tiles. Adjacent tiles of the same state are merged."""
        if not tiles:
            return
        first, end = tiles[0].first, tiles[-1].end
        assert self.start <= first < end <= self.end, (first, end, self.start, self.end)
        low = bisect_right(self._firsts, first) - 1
        high = bisect_right(self._firsts, end - 1)
        left, right = self._tile(low), self._tile(high - 1)
        # The neighbours join the merge, so that a state that returns leaves no seam.
        if left.first < first:
            before = [left._replace(end=first)]
        elif low > 0:
            low -= 1
            before = [self._tile(low)]
        else:
            before = []
        if right.end > end:
            after = [right._replace(first=end)]
        elif high < len(self._firsts):
            after = [self._tile(high)]
            high += 1
        else:
            after = []
        merged: list[Tile] = []
        position = before[0].first if before else first
        for tile in (*before, *tiles, *after):
            assert tile.first == position < tile.end, (tile, position)
            position = tile.end
            if merged and merged[-1][2:] == tile[2:]:
                merged[-1] = merged[-1]._replace(end=tile.end)
            else:
                merged.append(tile)
        self._firsts[low:high] = array("q", [tile.first for tile in merged])
        self._states[low:high] = bytes([tile.state for tile in merged])
        self._counts[low:high] = array("H", [tile.delivery_count for tile in merged])
        self._owners[low:high] = array("i", [tile.owner for tile in merged])
        self._deadlines[low:high] = array("q", [tile.deadline_ms for tile in merged])

    def drop_before(self, offset: int) -> None:
        """Move the start to `offset`. If that is beyond the end, the window becomes empty at `offset`."""
        if offset <= self.start:
            return
        if offset >= self.end:
            self._delete(len(self._firsts))
            self.start = self.end = offset
            return
        index = bisect_right(self._firsts, offset) - 1
        self._delete(index)
        self._firsts[0] = self.start = offset

    def _delete(self, count: int) -> None:
        del self._firsts[:count], self._states[:count], self._counts[:count]
        del self._owners[:count], self._deadlines[:count]
