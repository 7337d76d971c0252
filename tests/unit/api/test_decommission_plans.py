"""Sums of what a decommissioning would do."""

from __future__ import annotations

from kraft_http.models.operations import LISTED_MAX, PlannedArrivals
from kraft_http.ports import LeavePlan
from kraft_http.routers.decommissions import planned_data

from kraft.common.ids import TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))
PLAN = LeavePlan(moves=((A, 2, 1), (B, 2, 1), (C, 4, 3)), blocked=("wide-0",))
SIZES = {(1, A): 300, (1, B): 100, (3, C): 50, (2, C): 7}


def test_plan_bytes_are_the_leaders_sizes_summed_by_target() -> None:
    told = planned_data(1, PLAN, SIZES, None)
    assert (told.replicas_count, told.size_bytes, told.unsized_count) == (3, 450, 0)
    assert told.arrivals == [
        PlannedArrivals(broker_id=2, replicas_count=2, size_bytes=400),
        PlannedArrivals(broker_id=4, replicas_count=1, size_bytes=50),
    ]
    assert (told.blocked, told.blocked_count, told.estimated_seconds) == (["wide-0"], 1, None)


def test_the_duration_estimate_is_for_the_broker_that_moves_the_most_bytes() -> None:
    assert planned_data(1, PLAN, SIZES, 100).estimated_seconds == 4
    one_sends_all = LeavePlan(moves=((A, 2, 1), (B, 3, 1), (C, 4, 1)), blocked=())
    assert planned_data(1, one_sends_all, {(1, each): 100 for each in (A, B, C)}, 100).estimated_seconds == 3
    assert planned_data(1, LeavePlan(moves=(), blocked=()), {}, 100).estimated_seconds == 0


def test_without_a_known_size_there_is_no_estimate() -> None:
    nobody_leads = LeavePlan(moves=((A, 2, -1), (B, 2, 1)), blocked=())
    told = planned_data(1, nobody_leads, SIZES, 100)
    assert (told.size_bytes, told.unsized_count, told.estimated_seconds) == (100, 1, None)


def test_blocked_partitions_are_listed_up_to_a_limit() -> None:
    told = planned_data(1, LeavePlan(moves=(), blocked=tuple(f"t-{n}" for n in range(LISTED_MAX + 1))), {}, None)
    assert (told.blocked_count, len(told.blocked)) == (LISTED_MAX + 1, LISTED_MAX)
