"""Recorded pairs of source and target offsets of a mirrored partition, and the translation of group offsets. Pure.

A point states that every source record from `source` on is at `target` or later in the copy. So a group that has read
up to a source offset loses nothing if it continues at the last point before that offset. It reads the records after
that point again.
"""

from __future__ import annotations

from typing import NamedTuple

POINTS_MAX = 32
"""The limit per partition. Older points become sparse, so a group with an older offset reads more again."""


class Point(NamedTuple):
    source: int
    target: int


Points = tuple[Point, ...]
"""Points in ascending order."""


def noted(points: Points, point: Point) -> Points:
    """Return the points with one more. A point that is not beyond the last one is ignored."""
    if points and point.source <= points[-1].source:
        return points
    found = (*points, point)
    if len(found) <= POINTS_MAX:
        return found
    half = len(found) // 2
    return found[:half:2] + found[half:]


def translated(points: Points, offset: int) -> int | None:
    """Return where a group at `offset` in the source continues in the copy; None means at the copy's start."""
    before = [each for each in points if each.source <= offset]
    return before[-1].target if before else None
