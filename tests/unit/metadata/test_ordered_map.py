"""kraft/metadata/image/ordered_map.py: keys are sorted in turns where there are many."""

from __future__ import annotations

import random

import pytest

from kraft.metadata.image.ordered_map import SORTED_AT_ONCE, OrderedMap


@pytest.mark.parametrize("count", [SORTED_AT_ONCE + 1, 2 * SORTED_AT_ONCE, 3 * SORTED_AT_ONCE - 1])
def test_many_keys_are_sorted_incrementally_in_steps_counted_in_keys(count: int) -> None:
    keys = random.Random(count).sample(range(10 * count), count)
    table = OrderedMap(dict.fromkeys(keys))
    sorting = table.sort()
    for _ in range(count + count // 2):
        next(sorting)
    assert sum(1 for _ in sorting) == count - count // 2
    assert table.keys() is table.keys()
    assert table.keys() == tuple(sorted(keys))
    assert list(table.sort()) == [], "they are sorted now"


def test_an_iteration_before_the_sort_ends_is_in_order() -> None:
    count = 2 * SORTED_AT_ONCE
    table = OrderedMap(dict.fromkeys(reversed(range(count))))
    sorting = table.sort()
    next(sorting)
    assert list(table) == list(range(count))
    assert sum(1 for _ in sorting) == 2 * count - 1
    assert list(table) == list(range(count))


def test_few_keys_are_sorted_on_use() -> None:
    table = OrderedMap(dict.fromkeys((3, 1, 2)))
    assert list(table.sort()) == []
    assert list(table) == [1, 2, 3]
