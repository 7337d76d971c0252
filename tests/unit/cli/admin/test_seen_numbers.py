"""What of a run of numbers is missing, came twice, or came late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.cli.admin.records.seen_numbers import SeenNumbers


def seen(numbers: list[tuple[int, int]]) -> SeenNumbers:
    found = SeenNumbers()
    for number, partition in numbers:
        found.add(number, partition)
    return found


@given(numbers=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2)), max_size=120))
def test_ranges_of_seen_numbers_give_the_same_result_as_counting_singly(numbers: list[tuple[int, int]]) -> None:
    found, values = seen(numbers), [number for number, _ in numbers]
    highest = max(values, default=-1)
    missing = [number for number in range(highest + 1) if number not in values]
    assert (found.count, found.highest) == (len(values), highest)
    assert found.twice == len(values) - len(set(values))
    assert found.missing == len(missing)
    assert [number for first, last in found.holes() for number in range(first, last + 1)] == missing
    late = sum(
        any(earlier > number for earlier, at in numbers[:index] if at == partition)
        for index, (number, partition) in enumerate(numbers)
    )
    assert found.late == late


def test_a_complete_run_is_one_range_in_any_order() -> None:
    found = seen([(number, 0) for number in (*range(0, 1000, 2), *range(999, 0, -2))])
    assert (found.missing, found.twice, list(found.holes())) == (0, 0, [])
    assert len(found._starts) == 1
