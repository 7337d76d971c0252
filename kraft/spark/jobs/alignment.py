"""The alignment of two topics' records for comparison, where retention has deleted the beginning of one of them. Pure.

A copy numbers its records anew, so two topics are compared by place: the first of a partition with the first, and so
on. Once one log begins later than it did, its first record is the other's (shift + 1)-th; a negative shift is for a
log on the left that begins later. What the shift leaves out at the beginning of one side is explained if the other
log can have lost as many: its log start offset is the most that it can have held before.

Two sides agree only if they end together; so the shift that makes them end together decides whether they do,
whatever the records say. Where they do not agree, the first record of each side, looked up in the other, tells from
where on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Held(NamedTuple):
    """What one side holds of a partition: records, its log start offset, and where in the other side its first
    record is found (the first is 1)."""

    records: int
    log_start: int
    found_at: int | None = None


def held(
    starts: Mapping[int, int], firsts: Mapping[int, tuple[int, str]], found_at: Mapping[int, int]
) -> dict[int, Held]:
    """By partition, of a side whose logs begin at `starts`. `firsts` (records, and the print of the first) lacks
    partitions that hold nothing."""
    return {
        each: Held(firsts[each][0] if each in firsts else 0, start, found_at.get(each))
        for each, start in starts.items()
    }


def shifts(left: Held, right: Held) -> tuple[int, ...]:
    """The shifts worth trying, none of which leaves out more than retention can have deleted. 0 is always one of
    them."""
    wanted = {0, left.records - right.records}
    if right.found_at is not None:
        wanted.add(right.found_at - 1)
    if left.found_at is not None:
        wanted.add(1 - left.found_at)
    return tuple(sorted(each for each in wanted if -left.log_start <= each <= right.log_start))


def moved(left: Mapping[int, int], right: Mapping[int, int]) -> frozenset[int]:
    """The partitions of which either log does not begin at 0 any more. Takes log start offsets by partition."""
    return frozenset(partition for side in (left, right) for partition, start in side.items() if start > 0)


def by_partition(
    left: Mapping[int, Held], right: Mapping[int, Held], partitions: Iterable[int]
) -> list[tuple[int, int]]:
    """(partition, shift) for all of `partitions`; a partition that a side does not have is an empty one there."""
    nothing = Held(0, 0)
    return [
        (each, shift)
        for each in sorted(partitions)
        for shift in shifts(left.get(each, nothing), right.get(each, nothing))
    ]
