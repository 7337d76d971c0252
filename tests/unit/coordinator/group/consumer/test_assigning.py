"""Targets of large groups, computed by jobs beside the heartbeats."""

from __future__ import annotations

import pytest

from kraft.coordinator.group.consumer import assigning
from kraft.coordinator.group.consumer.assigning import INLINE_COST_MAX
from tests.unit.coordinator.consumers import GROUP, Consumer, ConsumerHost, settle
from tests.unit.coordinator.fakes import Topics
from tests.unit.coordinator.group_host import rebuild


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> ConsumerHost:
    """Every group is a large one."""
    monkeypatch.setattr(assigning, "INLINE_COST_MAX", 0)
    host = ConsumerHost(topics=Topics("t"))
    host.topics.counts = {"t": 4}
    return host


def settle_with_jobs(host: ConsumerHost, *consumers: Consumer) -> None:
    host.advance(host.consumer_configs.settings.assignment_interval_ms)
    for consumer in consumers:
        consumer.beat()
    host.do_jobs()
    settle(host, *consumers)


def test_a_member_of_a_large_group_waits_for_its_assignment_in_its_own_epoch(host: ConsumerHost) -> None:
    member = Consumer(host, "m", "t").join()
    assert (member.epoch, member.has, host.group.state.value) == (1, set(), "Assigning")
    host.do_jobs()
    member.beat()
    assert (member.epoch, member.has, host.group.state.value) == (2, {0, 1, 2, 3}, "Stable")


@pytest.mark.parametrize(("partitions", "is_inline"), [(INLINE_COST_MAX - 1, True), (INLINE_COST_MAX + 1, False)])
def test_a_small_group_gets_its_target_assignment_in_the_same_response(partitions: int, is_inline: bool) -> None:
    host = ConsumerHost(topics=Topics("t"))
    host.topics.counts = {"t": partitions}
    member = Consumer(host, "m", "t").join()
    assert (len(member.has), list(host.targets_asked)) == ((partitions, []) if is_inline else (0, [GROUP]))


def test_a_computed_target_is_dropped_when_the_group_epoch_is_newer(host: ConsumerHost) -> None:
    first, second = Consumer(host, "m", "t").join(), Consumer(host, "n", "t")
    host.begin_targets()
    second.join()
    before = host.state
    host.end_targets()
    assert host.state == before, "the second member has no part in it"
    settle_with_jobs(host, first, second)
    assert sorted(map(sorted, (first.has, second.has))) == [[0, 1], [2, 3]]


def test_a_computed_target_is_dropped_when_a_static_member_was_replaced(host: ConsumerHost) -> None:
    """The epoch is the same, and what was computed gives the partitions to a member that is gone."""
    old, other = Consumer(host, "m", "t", instance_id="i").join(), Consumer(host, "n", "t").join()
    settle_with_jobs(host, old, other)
    third = Consumer(host, "o", "t")
    host.advance(1_000)
    third.join()
    host.begin_targets()
    old.leave(-2)
    new = Consumer(host, "p", "t", instance_id="i").join()
    epoch, before = host.group.group_epoch, host.group.targets
    host.end_targets()
    assert (host.group.group_epoch, host.group.targets) == (epoch, before)
    settle_with_jobs(host, new, other, third)
    assert sorted([*new.has, *other.has, *third.has]) == [0, 1, 2, 3]


def test_a_target_computed_for_a_deleted_group_is_dropped(host: ConsumerHost) -> None:
    member = Consumer(host, "m", "t").join()
    host.begin_targets()
    member.leave()
    before = host.state
    host.end_targets()
    assert host.state == before


def test_records_encoded_in_a_worker_equal_those_in_the_log(host: ConsumerHost) -> None:
    members = [Consumer(host, f"m{number}", "t").join() for number in range(3)]
    settle_with_jobs(host, *members)
    assert rebuild(host.shard, host.log) == host.state
