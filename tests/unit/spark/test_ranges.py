"""Which offsets a task reads, and how many a trigger takes."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.ids import TopicPartition
from kraft.spark.errors import PlanIncomplete
from kraft.spark.source.ranges import (
    TASK_OFFSETS_MIN,
    OffsetRange,
    group_ranges,
    rate_limit,
    split_ranges,
    whole_ranges,
)

T0, T1, T2 = (TopicPartition("t", each) for each in range(3))
RANGES = st.lists(st.tuples(st.integers(0, 1000), st.integers(-5, 2000)), max_size=8).map(
    lambda pairs: [OffsetRange("t", index, start, start + size) for index, (start, size) in enumerate(pairs)]
)


@given(ranges=RANGES, partitions_min=st.none() | st.integers(1, 40), records_max=st.none() | st.integers(1, 500))
def test_tasks_cover_every_range_without_gap_or_overlap(
    ranges: list[OffsetRange], partitions_min: int | None, records_max: int | None
) -> None:
    tasks = split_ranges(ranges, partitions_min, records_max)
    for whole in ranges:
        parts = sorted(task for task in tasks if task.partition == whole.partition)
        if whole.size <= 0:
            assert parts == []
            continue
        assert [parts[0].start, parts[-1].end] == [whole.start, whole.end]
        assert all(left.end == right.start for left, right in pairwise(parts))
    assert all(task.size > 0 for task in tasks)
    if records_max is not None:
        assert all(task.size <= records_max for task in tasks)


SMALL_AND_LARGE = st.lists(st.integers(1, 2 * TASK_OFFSETS_MIN), max_size=12).map(
    lambda sizes: [OffsetRange("t", partition, 7, 7 + size) for partition, size in enumerate(sizes)]
)


@given(ranges=SMALL_AND_LARGE)
def test_tasks_of_a_micro_batch_combine_only_small_ranges(ranges: list[OffsetRange]) -> None:
    tasks = group_ranges(ranges)
    assert [each for task in tasks for each in task] == ranges, "all of them, in order"
    assert all(len(task) == 1 or sum(each.size for each in task) <= TASK_OFFSETS_MIN for task in tasks)
    for left, right in pairwise(tasks):
        assert sum(each.size for each in left) + right[0].size > TASK_OFFSETS_MIN, "there was room"


def test_without_min_partitions_each_partition_is_one_task() -> None:
    assert split_ranges([OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 5, 5)], None, None) == [
        OffsetRange("t", 0, 0, 10)
    ]


def test_only_large_ranges_are_split() -> None:
    tasks = split_ranges([OffsetRange("t", 0, 0, 90), OffsetRange("t", 1, 0, 10)], 4, None)
    assert [(task.partition, task.start, task.end) for task in tasks] == [
        (0, 0, 30),
        (0, 30, 60),
        (0, 60, 90),
        (1, 0, 10),
    ]


def test_a_range_survives_serialization_to_a_worker() -> None:
    whole = OffsetRange("t", 3, 5, 8)
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert (whole.size, whole.topic_partition) == (3, TopicPartition("t", 3))


@given(limit=st.integers(1, 10_000), lags=st.lists(st.integers(0, 5000), min_size=1, max_size=10))
def test_an_offset_limit_starves_no_partition_and_never_exceeds_the_end(limit: int, lags: list[int]) -> None:
    start = {TopicPartition("t", index): index * 7 for index in range(len(lags))}
    latest = {TopicPartition("t", index): index * 7 + lag for index, lag in enumerate(lags)}
    ends = rate_limit(limit, start, latest, lambda partitions: {})
    for partition, end in ends.items():
        assert start[partition] <= end <= latest[partition]
        assert (end > start[partition]) == (latest[partition] > start[partition])
    assert sum(end - start[partition] for partition, end in ends.items()) <= limit + len(lags)


def test_an_offset_limit_is_shared_in_proportion_to_lag() -> None:
    assert rate_limit(10, {T0: 0, T1: 0}, {T0: 80, T1: 20}, lambda partitions: {}) == {T0: 8, T1: 2}


def test_the_lag_of_a_new_partition_counts_from_its_start() -> None:
    assert rate_limit(10, {T0: 0}, {T0: 10, T1: 110}, lambda partitions: dict.fromkeys(partitions, 100)) == {
        T0: 5,
        T1: 105,
    }


@pytest.mark.parametrize("latest", [{T0: 5}, {T0: 3}])
def test_without_lag_the_end_offset_stays(latest: dict[TopicPartition, int]) -> None:
    assert rate_limit(10, {T0: 5}, latest, lambda partitions: {}) == latest


def test_a_plan_has_every_assigned_partition_even_an_empty_one() -> None:
    assert whole_ranges([T1, T0], {T0: 5, T1: 0}, {T0: 5, T1: 3}) == [
        OffsetRange("t", 0, 5, 5),
        OffsetRange("t", 1, 0, 3),
    ]


@pytest.mark.parametrize(
    ("starts", "ends", "told"),
    [
        ({T0: 0}, {T0: 5, T1: 5}, "t-1: their start offsets are not known"),
        ({T0: 0, T1: 0}, {T0: 5}, "t-1: their end offsets are not known"),
        ({T0: 0, T1: -1001}, {T0: 5, T1: -1001}, "t-1: their start offsets are not known"),
        ({T0: 0, T1: 0}, {T0: 5, T1: -1}, "t-1: their end offsets are not known"),
        ({T0: 0, T1: 0, T2: 0}, {T0: 5, T1: 5}, "t-2: only their start offsets are known"),
    ],
)
def test_a_plan_that_would_omit_a_partition_is_refused(
    starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], told: str
) -> None:
    with pytest.raises(PlanIncomplete, match=told):
        whole_ranges([T0, T1], starts, ends)
