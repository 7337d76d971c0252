"""Rates between two looks at a cluster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.cli.admin.cluster.rates import (
    GroupRate,
    Look,
    Rate,
    broker_rates,
    group_rates,
    partition_rates,
    topic_rates,
)
from kraft.common.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADERS = {A0: 1, A1: 2, B0: 1}


def test_record_rates_are_summed_by_partition_topic_and_leader() -> None:
    before, after = Look(10, {A0: 0, A1: 5, B0: 7}, LEADERS), Look(12, {A0: 20, A1: 5, B0: 9}, LEADERS)
    assert partition_rates(before, after) == [
        Rate("a-0", 10.0, leader=1),
        Rate("b-0", 1.0, leader=1),
        Rate("a-1", 0.0, leader=2),
    ]
    assert topic_rates(before, after) == [Rate("a", 10.0, 2), Rate("b", 1.0, 1)]
    assert broker_rates(before, after) == [Rate("1", 11.0, 2), Rate("2", 0.0, 1)]


def test_a_new_or_recreated_partition_has_no_rate_yet() -> None:
    rates = partition_rates(Look(0, {A0: 100}, LEADERS), Look(1, {A0: 3, B0: 50}, LEADERS))
    assert [rate.records_per_second for rate in rates] == [0, 0]


def test_a_group_that_catches_up_has_an_estimated_time() -> None:
    before = Look(0, {A0: 100, A1: 50}, LEADERS, {"g": {A0: 0, A1: 50}})
    after = Look(10, {A0: 150, A1: 50}, LEADERS, {"g": {A0: 100, A1: 50}})
    assert group_rates(before, after) == [GroupRate("g", "a", 50, 10.0, -5.0)]
    assert group_rates(before, after)[0].caught_up_in == 10.0


def test_a_group_that_falls_behind_or_stalls_has_no_estimated_time() -> None:
    before = Look(0, {A0: 100}, LEADERS, {"g": {A0: 90}})
    after = Look(10, {A0: 200}, LEADERS, {"g": {A0: 90}})
    [found] = group_rates(before, after)
    assert (found.lag, found.lag_change, found.caught_up_in) == (110, 10.0, None)
    assert GroupRate("g", "a", 0, 0, 0).caught_up_in == 0


def test_a_share_group_finishes_records_although_some_before_them_wait() -> None:
    before = Look(0, {A0: 100}, LEADERS, waiting={"s": {A0: 50, B0: 3}})
    after = Look(10, {A0: 150}, LEADERS, waiting={"s": {A0: 20, B0: 3}})
    assert group_rates(before, after) == [GroupRate("s", "a", 20, 8.0, -3.0, is_share=True)]


def test_a_partition_with_an_unknown_end_does_not_count() -> None:
    after = Look(10, {A0: 200}, LEADERS, {"g": {A0: 150, A1: 3}, "h": {B0: 1}})
    assert group_rates(Look(0, {}, {}), after) == [GroupRate("g", "a", 50, 0, 0), GroupRate("h", "b", 0, 0, 0)]


@given(st.dictionaries(st.sampled_from(sorted(LEADERS)), st.tuples(st.integers(0, 99), st.integers(0, 99))))
def test_rates_add_up_to_the_same_sum(ends: dict[TopicPartition, tuple[int, int]]) -> None:
    before = Look(0, {place: first for place, (first, _) in ends.items()}, LEADERS)
    after = Look(4, {place: last for place, (_, last) in ends.items()}, LEADERS)
    sums = [
        sum(rate.records_per_second for rate in rates(before, after))
        for rates in (partition_rates, topic_rates, broker_rates)
    ]
    assert sums[0] == sums[1] == sums[2]
    assert sum(rate.partitions for rate in topic_rates(before, after)) == len(ends)
