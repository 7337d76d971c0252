"""The acknowledgement types of records that a member holds (KIP-932): accept, release, reject, renew. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
"""Types of an acknowledgement. A gap is an offset without a record, as after compaction."""


class Acknowledgement(NamedTuple):
    """A member's acknowledgement of the records from `first` to `last` (inclusive): one type for all, or one for
    each."""

    first: int
    last: int
    types: Sequence[int]


def by_type(each: Acknowledgement, first: int, end: int) -> Iterable[tuple[int, int, int]]:
    """Yield the ranges of equal type from `first` to before `end`: (type, first, end)."""
    if len(each.types) == 1:
        yield each.types[0], first, end
        return
    begin = first
    while begin < end:
        kind = each.types[begin - each.first]
        stop = begin + 1
        while stop < end and each.types[stop - each.first] == kind:
            stop += 1
        yield kind, begin, stop
        begin = stop


def check(acknowledgements: Sequence[Acknowledgement]) -> None:
    """Check that ranges ascend and do not overlap, and that each has one known type for all its records, or one per
    record. Raises ApiError(INVALID_REQUEST)."""
    end = 0
    for first, last, types in acknowledgements:
        if not end <= first <= last:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"the range {first} to {last} overlaps or precedes another, or is empty"
            )
        if len(types) not in (1, last - first + 1):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{len(types)} acknowledgement types for the range {first} to {last}"
            )
        if any(not GAP <= kind <= RENEW for kind in types):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown acknowledgement type among {sorted(set(types))}")
        end = last + 1
