"""The law of combined delivery states: of each record the highest delivery count holds, then the highest state."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.share.share_state import StateBatch, combine

OFFSETS = st.integers(0, 40)


@st.composite
def batch(draw: st.DrawFn) -> StateBatch:
    first = draw(OFFSETS)
    return StateBatch(
        first, first + draw(st.integers(0, 12)), draw(st.sampled_from((0, 2, 4))), draw(st.integers(0, 5))
    )


def by_record(batches: list[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    """Count and state of each record, one by one."""
    states: dict[int, tuple[int, int]] = {}
    for each in batches:
        for offset in range(max(each.first_offset, start), each.last_offset + 1):
            states[offset] = max(states.get(offset, (-1, -1)), (each.delivery_count, each.delivery_state))
    return states


@given(st.lists(batch(), max_size=8), st.lists(batch(), max_size=8), OFFSETS, OFFSETS)
def test_combined_state_batches_give_each_record_the_state_of_the_separate_batches(
    known: list[StateBatch], newer: list[StateBatch], start: int, later: int
) -> None:
    before = combine((), known, start)
    after = combine(before, newer, max(start, later))
    expected = by_record([*before, *newer], max(start, later))
    assert by_record(list(after), 0) == expected
    for left, right in pairwise(after):
        assert left.last_offset < right.first_offset
        assert left.last_offset + 1 < right.first_offset or left[2:] != right[2:], "neighbours of one state are merged"
