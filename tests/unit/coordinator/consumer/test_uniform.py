"""The uniform assignor: what an assignment of many partitions costs, counted in comparisons."""

from __future__ import annotations

import pytest

from kraft.coordinator.group.consumer.assignors.subscriber import Subscriber
from kraft.coordinator.group.consumer.assignors.uniform import assign

FIRST, SECOND = b"1" * 16, b"2" * 16
PARTITIONS = 4000


class Counted(int):
    """A partition that counts how often it is compared with another."""

    comparisons = 0
    __hash__ = int.__hash__

    def __lt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int.__lt__(self, other)

    def __gt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int.__gt__(self, other)

    def __neg__(self) -> Counted:
        return Counted(int.__neg__(self))


@pytest.mark.parametrize("others", [{FIRST}, {FIRST, SECOND}], ids=["the same topics", "other topics"])
def test_a_member_that_joins_one_with_many_partitions_costs_little_more_than_they_are(others: set[bytes]) -> None:
    topics = dict.fromkeys([FIRST, *others], PARTITIONS)
    has_all = {FIRST: frozenset(map(Counted, range(PARTITIONS)))}
    Counted.comparisons = 0
    assignment = assign(
        [
            Subscriber("a", None, frozenset((FIRST,)), has_all),
            Subscriber("b", None, frozenset((FIRST,)), {}),
            Subscriber("c", None, frozenset(others), {}),
        ],
        topics,
    )
    assert Counted.comparisons < 40 * PARTITIONS
    kept = assignment["a"][FIRST]
    assert kept == set(range(len(kept))), "the first partitions stay"
    loads = sorted(sum(map(len, topics.values())) for topics in assignment.values())
    if len(others) == 1:
        assert loads == [1333, 1333, 1334]
    else:
        assert loads == [2000, 2000, 4000]
