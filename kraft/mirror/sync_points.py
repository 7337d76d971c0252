"""Where records of a source are in a copy, as far as it was noted, and what a group's offset is there. Pure.

A point says of one partition that every record of the source from `source` on is at `target` or behind it in the
copy. So a group that has read up to an offset of the source misses nothing if it goes on from the last point before
that; what it had read since then it reads again.
"""

from __future__ import annotations

from typing import NamedTuple

POINTS_MAX = 32
"""Of a partition. Older ones become sparse, so the older a group's offset is, the more it reads again."""


class Point(NamedTuple):
    source: int
    target: int


Points = tuple[Point, ...]
"""In order."""


def noted(points: Points, point: Point) -> Points:
    """With one more. One that is not beyond the last tells nothing new."""
    if points and point.source <= points[-1].source:
        return points
    found = (*points, point)
    if len(found) <= POINTS_MAX:
        return found
    half = len(found) // 2
    return found[:half:2] + found[half:]


def translated(points: Points, offset: int) -> int | None:
    """Where a group goes on in the copy that is at `offset` in the source; None is at the copy's beginning."""
    before = [each for each in points if each.source <= offset]
    return before[-1].target if before else None
