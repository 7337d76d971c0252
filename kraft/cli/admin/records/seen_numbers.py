"""Records which numbers of an increasing run were seen: missing, duplicate and late ones. Pure.

Numbers are kept as ranges, so a run without holes takes one range, however long it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

RANGES_MAX = 1_000_000
"""A run with more gaps at one time is not followed any further."""


class TooManyHoles(Exception):
    """Raised if the run has more holes than can be kept."""


class SeenNumbers:
    """The numbers seen of one run. `count` records were seen, `twice` of them were duplicates, `late` came after a
    greater number in their partition."""

    def __init__(self) -> None:
        self.count = self.twice = self.late = 0
        self._starts: list[int] = []
        self._ends: list[int] = []
        """Exclusive; range i begins at `_starts[i]`."""
        self._last: dict[int, int] = {}

    def add(self, number: int, partition: int) -> None:
        """Add a number of a partition. Raises TooManyHoles."""
        self.count += 1
        if number < self._last.get(partition, -1):
            self.late += 1
        self._last[partition] = max(number, self._last.get(partition, -1))
        index = bisect_right(self._starts, number) - 1
        if index >= 0 and number < self._ends[index]:
            self.twice += 1
            return
        touches_left = index >= 0 and self._ends[index] == number
        touches_right = index + 1 < len(self._starts) and self._starts[index + 1] == number + 1
        if touches_left and touches_right:
            self._ends[index] = self._ends.pop(index + 1)
            del self._starts[index + 1]
        elif touches_left:
            self._ends[index] = number + 1
        elif touches_right:
            self._starts[index + 1] = number
        else:
            if len(self._starts) >= RANGES_MAX:
                raise TooManyHoles
            self._starts.insert(index + 1, number)
            self._ends.insert(index + 1, number + 1)

    @property
    def highest(self) -> int:
        """The highest number seen; -1 if none."""
        return self._ends[-1] - 1 if self._ends else -1

    @property
    def missing(self) -> int:
        """The count of numbers from 0 to the highest that were not seen."""
        return self.highest + 1 - sum(end - start for start, end in zip(self._starts, self._ends, strict=True))

    def holes(self) -> Iterator[tuple[int, int]]:
        """First and last number of each hole, in order."""
        if self._starts and self._starts[0] > 0:
            yield 0, self._starts[0] - 1
        for (_, end), (start, _) in pairwise(zip(self._starts, self._ends, strict=True)):
            yield end, start - 1
