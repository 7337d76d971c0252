"""A group that moves to the copy misses nothing, whatever was copied when and whatever of it is noted."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from kraft.mirror.sync_points import POINTS_MAX, Point, Points, noted, translated
from kraft.spark.jobs.mirror_many import ends_of

BATCHES = st.lists(
    st.tuples(st.lists(st.integers(1, 3), max_size=4), st.integers(0, 3), st.integers(0, 2)), max_size=120
)
"""Of each micro-batch: how far apart its records are in the source, what is behind them there (markers, aborted
records), and how many markers the copy has behind them."""


@given(batches=BATCHES, part=st.floats(0, 1))
def test_a_migrated_group_skips_no_record_and_a_group_at_the_end_rereads_none(
    batches: list[tuple[list[int], int, int]], part: float
) -> None:
    points: Points = ()
    source: list[int] = []
    target: list[int] = []
    end = copy_end = 0
    for gaps, behind, markers in batches:
        for gap in gaps:
            end += gap
            source.append(end - 1)
            target.append(copy_end)
            copy_end += 1
        end += behind
        points = noted(points, Point(end, copy_end))
        copy_end += markers
    group = round(part * end)
    at = translated(points, group) or 0
    unread = target[bisect_left(source, group) :]
    assert not unread or at <= unread[0]
    assert len(points) <= POINTS_MAX
    if points:
        assert translated(points, end) == points[-1].target
        assert not [each for each in target if each >= points[-1].target]


def test_redundant_sync_points_are_dropped_and_recent_ones_stay_dense() -> None:
    assert noted((Point(5, 5),), Point(5, 9)) == (Point(5, 5),)
    assert translated((), 7) is None
    assert translated((Point(5, 5),), 4) is None
    points: Points = ()
    for end in range(1000):
        points = noted(points, Point(end, end))
    assert points[-8:] == tuple(Point(each, each) for each in range(992, 1000))
    assert points[0].source < 500


def test_the_end_offsets_of_a_batch_are_read_from_sparks_plan() -> None:
    planned = 'v1\n{"batchWatermarkMs":0}\n{"a":{"0":7,"00":2,"10":3},"b":{"1":0}}'
    assert ends_of(planned) == {("a", 0): 7, ("a", 10): 3, ("b", 1): 0}
