"""Lags in seconds, from samples of where a partition ended."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.ids import TopicPartition
from kraft.server.history import end_history
from kraft.server.history.end_history import SAMPLES_MAX, SECONDS_BETWEEN, EndHistory
from kraft.world.steps import at_once
from kraft.world.turns import TURN_ITEMS

PLACE = TopicPartition("t", 0)


def history(*samples: tuple[float, int]) -> EndHistory:
    made = EndHistory()
    for now, end in samples:
        at_once(made.take({PLACE: end}, now))
    return made


def test_a_group_at_the_end_is_not_behind() -> None:
    assert history((0, 10)).seconds_behind(PLACE, 10, 50) == 0
    assert history((0, 10)).seconds_behind(PLACE, 12, 50) == 0


def test_it_is_as_far_behind_as_the_partition_ended_there_ago() -> None:
    made = history((0, 0), (10, 100), (20, 300))
    assert made.seconds_behind(PLACE, 100, 25) == 15
    assert made.seconds_behind(PLACE, 50, 25) == 20
    assert made.seconds_behind(PLACE, 200, 25) == 10


def test_a_partition_that_stood_still_counts_from_when_it_went_on() -> None:
    made = history((0, 5), (10, 5), (100, 5), (110, 6))
    assert made.seconds_behind(PLACE, 5, 130) == 30


def test_before_the_history_begins_its_length_is_told() -> None:
    assert history((10, 100)).seconds_behind(PLACE, 3, 70) == 60
    assert EndHistory().seconds_behind(PLACE, 3, 70) is None


def test_a_new_partition_of_the_name_begins_anew() -> None:
    made = history((0, 100), (10, 200), (20, 4))
    assert made.seconds_behind(PLACE, 4, 30) == 0
    assert made.seconds_behind(PLACE, 2, 30) == 10


def test_what_nobody_commits_any_more_is_forgotten() -> None:
    made = history((0, 100))
    at_once(made.take({}, 10))
    assert made.seconds_behind(PLACE, 1, 10) is None


def test_what_a_silent_leader_does_not_tell_is_not_forgotten() -> None:
    made = history((0, 100), (10, 200))
    at_once(made.take({}, 20, [PLACE, PLACE, TopicPartition("t", 1)]))
    at_once(made.take({PLACE: 300}, 30))
    assert made.seconds_behind(PLACE, 100, 30) == 30
    assert made.seconds_behind(TopicPartition("t", 1), 0, 30) is None


def test_no_more_partitions_are_kept_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_history, "PARTITIONS_MAX", 2)
    made = EndHistory()
    at_once(made.take({TopicPartition("t", index): 5 for index in range(3)}, 0))
    assert [made.seconds_behind(TopicPartition("t", index), 5, 0) for index in range(3)] == [0, 0, None]
    at_once(made.take({TopicPartition("t", index): 5 for index in (1, 3)}, 0, [TopicPartition("t", 0)]))
    assert [made.seconds_behind(TopicPartition("t", index), 5, 0) for index in (0, 1, 3)] == [None, 0, 0]


def test_samples_are_taken_in_turns_and_seen_when_they_are_whole() -> None:
    made, many = EndHistory(), {TopicPartition("t", index): 5 for index in range(3 * TURN_ITEMS)}
    taking = made.take(many, 0)
    assert [made.seconds_behind(PLACE, 5, 0) for _ in taking] == [None] * 3
    assert made.seconds_behind(PLACE, 5, 0) == 0


def test_an_answer_as_of_a_moment_before_the_last_look_is_not_negative() -> None:
    made = history((100, 10), (110, 20))
    assert made.seconds_behind(PLACE, 5, 90) == 0
    assert made.seconds_behind(PLACE, 19, 105) == 0


@given(st.lists(st.tuples(st.floats(0.1, 100), st.integers(0, 50)), min_size=1, max_size=100), st.data())
def test_the_answer_lies_between_the_looks_that_enclose_it(steps: list[tuple[float, int]], data: st.DataObject) -> None:
    """However many looks there were, what is kept is bounded, and true of a partition that grows evenly."""
    now, end, made = 0.0, 0, EndHistory()
    looks = []
    for seconds, records in steps:
        now, end = now + seconds, end + records
        at_once(made.take({PLACE: end}, now))
        looks.append((now, end))
    offset = data.draw(st.integers(0, end))
    behind = made.seconds_behind(PLACE, offset, now)
    assert behind is not None
    assert 0 <= behind <= now
    kept = made._samples[PLACE][0]
    assert len(kept) <= SAMPLES_MAX
    if offset < end:
        first_after = next(moment for moment, value in looks if value > offset)
        earliest = max((moment for moment in kept if moment < first_after), default=kept[0])
        assert now - first_after - SECONDS_BETWEEN - max_gap(kept) <= behind <= now - earliest + 1e-6


def max_gap(moments: list[float]) -> float:
    return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)
