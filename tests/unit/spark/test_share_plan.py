"""Micro-batches of a share group: their form in the checkpoint, and how they are split into tasks."""

from __future__ import annotations

import json

import pytest

from kraft.spark.source import share_plan
from kraft.spark.source.share_plan import (
    AcquiredOffset,
    ShareOffset,
    ShareRange,
    next_batch,
    refuse_share_offset,
    share_offset,
    split_into_tasks,
    with_finished,
)

ID = bytes(range(16))


def of(first: int, last: int, count: int = 1, partition: int = 0) -> ShareRange:
    return ShareRange("jobs", ID, partition, first, last, count)


def held(*offsets: int, count: int = 1, partition: int = 0) -> list[AcquiredOffset]:
    return [AcquiredOffset("jobs", ID, partition, each, count) for each in offsets]


def test_an_offset_is_read_back_from_the_checkpoint_with_ranges_and_processed_records() -> None:
    offset = ShareOffset("workers", 7, (of(0, 9), of(10, 12, count=2), of(3, 3, partition=1)), (of(90, 95, count=0),))
    assert share_offset(json.loads(json.dumps(offset.to_json())), "workers") == offset


def test_a_batch_joins_adjacent_offsets_of_one_delivery_count() -> None:
    offsets = [*held(5, 1, 2, 3), *held(4, count=2), *held(6, partition=1)]
    batch = next_batch(ShareOffset("workers", 2), offsets, {})
    assert batch == ShareOffset("workers", 3, (of(1, 3), of(4, 4, count=2), of(5, 5), of(6, 6, partition=1)))


def test_a_batch_has_no_offset_that_was_not_acquired() -> None:
    offsets = held(1, 2, 5, 9)
    batch = next_batch(ShareOffset("workers", 0), offsets, {})
    assert [slot for each in batch.ranges for slot in each.slots()] == [each.slot for each in offsets]


def test_two_batches_with_the_same_records_have_different_offsets() -> None:
    first = next_batch(ShareOffset("workers", 0), held(0, 1), {})
    assert next_batch(first, held(0, 1), {}).to_json() != first.to_json()


def test_a_batch_carries_the_processed_records_that_were_not_accepted() -> None:
    ended = ShareOffset("workers", 4, (of(10, 11),), (of(2, 2, count=0),))
    unsettled = with_finished({}, ended)
    assert list(unsettled) == [(ID, 0, 2), (ID, 0, 10), (ID, 0, 11)]
    assert next_batch(ended, held(20), unsettled).processed == (of(2, 2, count=0), of(10, 11, count=0))


def test_the_oldest_processed_records_are_forgotten_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_plan, "PROCESSED_MAX", 2)
    ended = ShareOffset("workers", 4, (of(10, 11),), (of(2, 3, count=0),))
    assert list(with_finished({(ID, 0, 1): "jobs"}, ended)) == [(ID, 0, 2), (ID, 0, 3), (ID, 0, 10), (ID, 0, 11)]


def test_a_partition_is_split_over_the_readers_in_equal_parts() -> None:
    assert split_into_tasks([of(0, 9)], 3) == [(of(0, 3),), (of(4, 6),), (of(7, 9),)]


def test_ranges_of_several_partitions_share_tasks() -> None:
    ranges = [of(0, 1), of(7, 7, count=2), of(0, 4, partition=1)]
    assert split_into_tasks(ranges, 2) == [
        (of(0, 1), of(7, 7, count=2), of(0, 0, partition=1)),
        (of(1, 4, partition=1),),
    ]


def test_no_task_is_empty() -> None:
    assert split_into_tasks([of(4, 5)], 8) == [(of(4, 4),), (of(5, 5),)]
    assert split_into_tasks([], 8) == []


@pytest.mark.parametrize("readers", [1, 2, 3, 5, 8, 100])
def test_the_tasks_have_every_offset_of_the_batch_once_and_no_other(readers: int) -> None:
    ranges = [of(3, 40), of(41, 41, count=3), of(0, 16, partition=1), of(90, 90, partition=2)]
    tasks = split_into_tasks(ranges, readers)
    slots = [slot for task in tasks for each in task for slot in each.slots()]
    assert slots == [slot for each in ranges for slot in each.slots()]
    sizes = [sum(each.size for each in task) for task in tasks]
    assert max(sizes) - min(sizes) <= 1


def test_the_checkpoint_of_another_share_group_is_refused() -> None:
    with pytest.raises(ValueError, match=r"belongs to share group workers, and option shareGroup is others"):
        share_offset(ShareOffset("workers", 1).to_json(), "others")


def test_the_checkpoint_of_a_query_without_share_group_is_refused() -> None:
    with pytest.raises(ValueError, match=r"belongs to a query without shareGroup"):
        share_offset({"jobs": {"0": 5}}, "workers")


def test_a_query_without_share_group_refuses_the_checkpoint_of_one() -> None:
    refuse_share_offset({"shareGroup": {"0": 5}})  # A topic of that name.
    with pytest.raises(ValueError, match=r"belongs to share group workers, and this query has no option shareGroup"):
        refuse_share_offset(ShareOffset("workers", 1).to_json())
