"""Align the records of two topics for a comparison when retention has deleted the beginning of one log. Pure.

A copy has its own offsets, so two topics are compared by place: the first record of a partition with the first, and so
on. If the right log has lost its first records, its first record is the left log's (shift + 1)-th. A negative shift
means that the left log has lost records. The records that the shift leaves out must be explained by retention: a log
cannot have lost more records than its log start offset.

Two sides can agree only if their last records correspond. So only the shift that aligns the last records needs to be
tried to find out whether the sides agree. If they do not agree, the first record of each side is looked up in the other
side, to find where the common part starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class PartitionContent(NamedTuple):
    """One side's content of a partition: the number of records, the log start offset, and the place of its first record
    in the other side (the first place is 1)."""

    records: int
    log_start: int
    found_at: int | None = None


def partition_contents(
    starts: Mapping[int, int], firsts: Mapping[int, tuple[int, str]], found_at: Mapping[int, int]
) -> dict[int, PartitionContent]:
    """Return the content of one side by partition. `starts` are the log start offsets. `firsts` (the number of records,
    and the first record's print) has no entry for an empty partition."""
    return {
        each: PartitionContent(firsts[each][0] if each in firsts else 0, start, found_at.get(each))
        for each, start in starts.items()
    }


def shifts(left: PartitionContent, right: PartitionContent) -> tuple[int, ...]:
    """Return the shifts to try. None leaves out more than retention can have deleted. 0 is always included."""
    wanted = {0, left.records - right.records}
    if right.found_at is not None:
        wanted.add(right.found_at - 1)
    if left.found_at is not None:
        wanted.add(1 - left.found_at)
    return tuple(sorted(each for each in wanted if -left.log_start <= each <= right.log_start))


def moved(left: Mapping[int, int], right: Mapping[int, int]) -> frozenset[int]:
    """Return the partitions in which the log of either side no longer starts at 0. Takes log start offsets by
    partition."""
    return frozenset(partition for side in (left, right) for partition, start in side.items() if start > 0)


def by_partition(
    left: Mapping[int, PartitionContent], right: Mapping[int, PartitionContent], partitions: Iterable[int]
) -> list[tuple[int, int]]:
    """Return (partition, shift) for all of `partitions`. A partition missing on one side counts as empty."""
    nothing = PartitionContent(0, 0)
    return [
        (each, shift)
        for each in sorted(partitions)
        for shift in shifts(left.get(each, nothing), right.get(each, nothing))
    ]
