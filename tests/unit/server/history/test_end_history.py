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


def test_a_group_at_the_log_end_has_no_time_lag() -> None:
    assert history((0, 10)).seconds_behind(PLACE, 10, 50) == 0
    assert history((0, 10)).seconds_behind(PLACE, 12, 50) == 0


def test_the_time_lag_is_the_time_since_the_log_ended_at_the_committed_offset() -> None:
    made = history((0, 0), (10, 100), (20, 300))
    assert made.seconds_behind(PLACE, 100, 25) == 15
    assert made.seconds_behind(PLACE, 50, 25) == 20
    assert made.seconds_behind(PLACE, 200, 25) == 10


def test_the_time_lag_of_an_idle_partition_counts_from_its_next_append() -> None:
    made = history((0, 5), (10, 5), (100, 5), (110, 6))
    assert made.seconds_behind(PLACE, 5, 130) == 30


def test_an_offset_older_than_the_history_has_the_length_of_the_history_as_its_lag() -> None:
    assert history((10, 100)).seconds_behind(PLACE, 3, 70) == 60
    assert EndHistory().seconds_behind(PLACE, 3, 70) is None


def test_a_recreated_partition_starts_a_new_history() -> None:
    made = history((0, 100), (10, 200), (20, 4))
    assert made.seconds_behind(PLACE, 4, 30) == 0
    assert made.seconds_behind(PLACE, 2, 30) == 10


def test_the_history_of_a_partition_without_commits_is_dropped() -> None:
    made = history((0, 100))
    at_once(made.take({}, 10))
    assert made.seconds_behind(PLACE, 1, 10) is None


def test_the_history_of_a_partition_with_a_silent_leader_is_kept() -> None:
    made = history((0, 100), (10, 200))
    at_once(made.take({}, 20, [PLACE, PLACE, TopicPartition("t", 1)]))
    at_once(made.take({PLACE: 300}, 30))
    assert made.seconds_behind(PLACE, 100, 30) == 30
    assert made.seconds_behind(TopicPartition("t", 1), 0, 30) is None


def test_the_number_of_partitions_with_a_history_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_history, "PARTITIONS_MAX", 2)
    made = EndHistory()
    at_once(made.take({TopicPartition("t", index): 5 for index in range(3)}, 0))
    assert [made.seconds_behind(TopicPartition("t", index), 5, 0) for index in range(3)] == [0, 0, None]
    at_once(made.take({TopicPartition("t", index): 5 for index in (1, 3)}, 0, [TopicPartition("t", 0)]))
    assert [made.seconds_behind(TopicPartition("t", index), 5, 0) for index in (0, 1, 3)] == [None, 0, 0]


def test_samples_are_collected_in_steps_and_published_when_complete() -> None:
    made, many = EndHistory(), {TopicPartition("t", index): 5 for index in range(3 * TURN_ITEMS)}
    taking = made.take(many, 0)
    assert [made.seconds_behind(PLACE, 5, 0) for _ in taking] == [None] * 3
    assert made.seconds_behind(PLACE, 5, 0) == 0


def test_a_time_lag_requested_for_a_time_before_the_last_sample_is_not_negative() -> None:
    made = history((100, 10), (110, 20))
    assert made.seconds_behind(PLACE, 5, 90) == 0
    assert made.seconds_behind(PLACE, 19, 105) == 0


@given(st.lists(st.tuples(st.floats(0.1, 100), st.integers(0, 50)), min_size=1, max_size=100), st.data())
def test_the_time_lag_lies_between_the_enclosing_samples(steps: list[tuple[float, int]], data: st.DataObject) -> None:
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
