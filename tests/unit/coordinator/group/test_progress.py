"""Members that commit nothing or stand still are told from slow ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.common.ids import TopicPartition
from kraft.coordinator.group.progress import (
    TRAILING_RECORDS_MAX,
    Inspection,
    Owner,
    Pace,
    Watch,
    duration,
    late_members,
    pace_of,
    watch,
)

STUCK_MS = 600_000
STEP_MS = 10_000
PLACE = TopicPartition("t", 0)
OWNER = Owner("m-1", "billing", "/10.0.0.7", None)


def seen(looks: list[tuple[int | None, int, int]], step_ms: int = STEP_MS) -> tuple[Watch, int]:
    """After looks that are (offset, commit time, end), one every `step_ms`; with the time of the last."""
    watched: Watch | None = None
    now = 0
    for at, (offset, commit_ms, end) in enumerate(looks):
        now = at * step_ms
        watched = watch(watched, Inspection("m-1", offset, commit_ms, end), now, STUCK_MS)
    assert watched is not None
    return watched, now


def pace(looks: list[tuple[int | None, int, int]], step_ms: int = STEP_MS) -> Pace:
    watched, now = seen(looks, step_ms)
    return pace_of(watched, now, STUCK_MS)


def test_a_member_without_any_commit_is_stuck_after_records_have_waited_long_enough() -> None:
    looks = [(None, -1, 1000), *[(None, -1, 1000 + 10 * at) for at in range(1, 100)]]
    assert pace(looks[:61]) is Pace.KEEPS_UP
    assert pace(looks[:62]) is Pace.COMMITS_NOTHING


def test_a_member_whose_last_commit_is_old_is_reported_as_not_committing() -> None:
    assert pace([(500, 1, 500 + 10 * at) for at in range(70)]) is Pace.COMMITS_NOTHING


def test_a_member_that_repeats_the_same_offset_is_reported_as_stalled() -> None:
    assert pace([(500, at, 500 + 10 * at) for at in range(70)]) is Pace.STANDS_STILL


def test_a_member_that_commits_while_its_lag_grows_is_reported_as_slow() -> None:
    assert pace([(at, at, 10_000 + 10 * at) for at in range(70)]) is Pace.SLOW
    watched, now = seen([(10 * at, at, 10_000 + 110 * at) for at in range(70)])
    (found,) = late_members("g", {PLACE: watched}, [OWNER], now, STUCK_MS)
    assert found.summary == (
        "billing at 10.0.0.7 is slow: it commits, but its lag of 16,900 records in t-0 has grown for 11 min, "
        "by 10.0 records a second of late."
    )


def test_a_member_that_catches_up_is_not_slow() -> None:
    assert pace([(20 * at, at, 10_000 + 10 * at) for at in range(70)]) is Pace.KEEPS_UP


def test_a_small_growing_lag_is_not_reported_as_slow() -> None:
    assert pace([(max(0, 100 * at - at), at, 100 * at + 5) for at in range(30)]) is Pace.KEEPS_UP


def test_a_few_records_behind_the_last_commit_may_be_markers_and_are_not_reported() -> None:
    trailing = [(500, 1, 500), *[(500, 1, 500 + TRAILING_RECORDS_MAX)] * 200]
    assert pace(trailing) is Pace.KEEPS_UP
    assert pace([*trailing, (500, 1, 501 + TRAILING_RECORDS_MAX)]) is Pace.COMMITS_NOTHING


def test_a_large_constant_backlog_is_reported() -> None:
    assert pace([(0, 1, 5000)] * 70) is Pace.COMMITS_NOTHING


def test_a_lag_summary_names_member_start_time_and_backlog() -> None:
    watched, now = seen([(0, 1, 5000)] * 61)
    places = [TopicPartition("t", index) for index in range(5)]
    (found,) = late_members("g", dict.fromkeys(places, watched), [OWNER], now, STUCK_MS)
    assert found.summary == (
        "billing at 10.0.0.7 has committed nothing for 10 min, although 25,000 records wait in t-0, t-1, t-2 and "
        "2 more partitions."
    )
    assert (found.waiting, found.last_commit_ms, found.pace.is_stuck) == (25_000, 1, True)


def test_partitions_of_a_member_that_has_left_are_not_reported() -> None:
    watched, now = seen([(0, 1, 5000)] * 61)
    assert late_members("g", {PLACE: watched}, [], now, STUCK_MS) == []


def test_durations_are_formatted_in_words() -> None:
    assert [duration(ms) for ms in (45_900, 119_000, 600_000, 7_200_000)] == ["45 s", "119 s", "10 min", "2 h"]


steps = st.lists(st.integers(0, 50), min_size=2, max_size=150)


@given(grown=steps)
def test_a_member_whose_offset_moves_between_checks_is_never_stuck(grown: list[int]) -> None:
    ends = [10_000 + sum(grown[: at + 1]) for at in range(len(grown))]
    assert not pace([(at, at, end) for at, end in enumerate(ends)]).is_stuck


@given(grown=steps, commits=st.booleans())
def test_a_member_without_lag_keeps_up(grown: list[int], commits: bool) -> None:
    ends = [sum(grown[: at + 1]) for at in range(len(grown))]
    assert pace([(end, at if commits else 0, end) for at, end in enumerate(ends)]) is Pace.KEEPS_UP


@given(grown=steps, times=st.integers(2, 5))
def test_more_frequent_checks_do_not_change_whether_a_member_is_stuck(grown: list[int], times: int) -> None:
    looks = [(500, 1, 500 + sum(grown[: at + 1])) for at in range(len(grown))]
    often = [look for look in looks for _ in range(times)]
    watched, now = seen(looks, STEP_MS * times)
    again, later = seen(often)
    stuck = pace_of(watched, now + STEP_MS * times, STUCK_MS).is_stuck
    assert pace_of(again, now + STEP_MS * times, STUCK_MS).is_stuck == stuck
    assert later >= now


@given(grown=steps, waited=st.integers(0, 10_000_000))
def test_a_stuck_member_stays_stuck_until_it_commits(grown: list[int], waited: int) -> None:
    watched, now = seen([(500, 1, 500 + sum(grown[: at + 1])) for at in range(len(grown))])
    if pace_of(watched, now, STUCK_MS).is_stuck:
        later = watch(watched, Inspection("m-1", 500, 1, watched.end), now + waited, STUCK_MS)
        assert pace_of(later, now + waited, STUCK_MS).is_stuck
        moved = watch(later, Inspection("m-1", 501, 2, watched.end), now + waited, STUCK_MS)
        assert not pace_of(moved, now + waited, STUCK_MS).is_stuck
        taken = watch(later, Inspection("m-2", 500, 1, watched.end), now + waited, STUCK_MS)
        assert pace_of(taken, now + waited, STUCK_MS) is Pace.KEEPS_UP
