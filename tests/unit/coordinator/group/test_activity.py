"""What is counted of groups: rebalances, members that were removed, and how long a group took to settle."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kraft.common.metrics import Histogram
from kraft.coordinator.group.activity import CLASSIC, CONSUMER, SHARE, STREAMS, GroupActivity, GroupChange, GroupEvent
from kraft.coordinator.group.classic.classic_group import ClassicGroupState
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.server.metrics import group_families as group_families_module
from kraft.server.metrics.group_families import group_families
from tests.unit.coordinator.classic_consumers import ClassicConsumer
from tests.unit.coordinator.consumers import GROUP, Consumer, ConsumerHost

UNSETTLED, SETTLED, EMPTIED, FENCED = GroupEvent


def make_host() -> ConsumerHost:
    host = ConsumerHost(GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0))
    host.consumer_configs.settings = type(host.consumer_configs.settings)(assignment_interval_ms=0)
    host.topics.counts["t"] = 4
    return host


def told(host: ConsumerHost) -> list[tuple[str, GroupEvent]]:
    found = [(change.protocol, change.happened) for change in host.changes]
    host.changes.clear()
    return found


def counts(host: ConsumerHost) -> dict[tuple[str, tuple[str, ...]], float]:
    families = trio.run(group_families, [host.state], None)
    return {
        (family.name.rpartition("_")[2] if family.labels == () else family.name, labels): number
        for family in families
        for labels, number in (family.read() if family.read is not None else ())
        if number
    }


def test_a_consumer_group_is_stable_when_the_last_member_has_its_target() -> None:
    host = make_host()
    one = Consumer(host, "one", "t").join()
    assert told(host) == [(CONSUMER, UNSETTLED), (CONSUMER, SETTLED)]
    two = Consumer(host, "two", "t").join()
    assert told(host) == [(CONSUMER, UNSETTLED)]
    assert counts(host)["kafka_server_group_coordinator_metrics_consumer_group_count", ("reconciling",)] == 1
    for _ in range(3):
        one.beat()
        two.beat()
    assert told(host) == [(CONSUMER, SETTLED)]
    assert counts(host) == {
        ("kafka_server_group_coordinator_metrics_group_count", ("consumer",)): 1,
        ("kafka_server_group_coordinator_metrics_consumer_group_count", ("stable",)): 1,
        ("kafka_consumergroup_members", (GROUP,)): 2,
    }


def test_a_consumer_group_left_by_all_members_does_not_count_as_stable() -> None:
    host = make_host()
    one = Consumer(host, "one", "t").join()
    told(host)
    one.leave()
    assert told(host) == [(CONSUMER, UNSETTLED), (CONSUMER, EMPTIED)]


def test_an_expired_member_session_is_counted() -> None:
    host = make_host()
    Consumer(host, "one", "t").join()
    told(host)
    host.advance(60_000)
    assert [change for change in host.changes if change.happened is FENCED] == [
        GroupChange(GROUP, CONSUMER, FENCED, "session")
    ]


def test_a_classic_group_is_stable_with_its_leaders_assignment() -> None:
    host = make_host()
    one = ClassicConsumer(host, "one", "t").join()
    host.advance(0)
    one.beat()
    assert told(host) == [(CLASSIC, UNSETTLED), (CLASSIC, SETTLED)]
    assert counts(host) == {
        ("kafka_server_group_coordinator_metrics_group_count", ("classic",)): 1,
        ("kafka_consumergroup_members", (GROUP,)): 1,
        ("numgroups", ()): 1,
        ("numgroupsstable", ()): 1,
    }
    host.advance(60_000)
    assert (CLASSIC, FENCED) in told(host)


def observed(histogram: Histogram) -> tuple[int, float]:
    return histogram.count, histogram.sum


def test_a_rebalance_interrupted_by_another_is_timed_from_its_first_start() -> None:
    activity = GroupActivity()
    for happened, now in ((UNSETTLED, 1.0), (UNSETTLED, 2.0), (SETTLED, 4.0), (SETTLED, 9.0)):
        activity.hear(0, GroupChange(GROUP, CONSUMER, happened), now)
    assert activity.rebalances == {CLASSIC: 0, CONSUMER: 2, SHARE: 0, STREAMS: 0}
    assert observed(activity.settle_seconds[CONSUMER]) == (1, 3.0)


def test_share_groups_are_counted_and_not_timed() -> None:
    activity = GroupActivity()
    for happened in (UNSETTLED, FENCED, UNSETTLED):
        activity.hear(0, GroupChange(GROUP, SHARE, happened, "session"), 1.0)
    assert activity.rebalances == {CLASSIC: 0, CONSUMER: 0, SHARE: 2, STREAMS: 0}
    assert activity.fenced == {(SHARE, "session"): 1}
    assert not activity._since[0]


def test_a_group_that_is_emptied_or_moves_to_another_node_is_no_longer_tracked() -> None:
    activity = GroupActivity()
    activity.hear(0, GroupChange(GROUP, CONSUMER, UNSETTLED), 1.0)
    activity.hear(0, GroupChange(GROUP, CONSUMER, EMPTIED), 2.0)
    activity.hear(0, GroupChange(GROUP, CONSUMER, SETTLED), 3.0)
    activity.hear(1, GroupChange("other", CLASSIC, UNSETTLED), 4.0)
    activity.forget(1)
    activity.hear(1, GroupChange("other", CLASSIC, SETTLED), 5.0)
    assert observed(activity.settle_seconds[CONSUMER]) == observed(activity.settle_seconds[CLASSIC]) == (0, 0.0)


def test_member_counts_are_shown_for_selected_groups_and_for_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_families_module, "MEMBERS_MAX", 3)
    members = {"a": 0, "b": 1, "c": 9, "d": 9, "e": 0}
    groups = {
        name: SimpleNamespace(group_id=name, state=ClassicGroupState.EMPTY, members=range(count))
        for name, count in members.items()
    }
    shard: Any = SimpleNamespace(groups=groups, consumer_groups={}, share_groups={}, streams_groups={})

    def told(shown: list[str] | None) -> tuple[dict[str, float], float]:
        families = {each.name: dict(each.read()) for each in trio.run(group_families, [shard], shown)}
        counts = {group: count for (group,), count in families["kafka_consumergroup_members"].items()}
        return counts, families["kraft_consumergroup_members_left_out"][()]

    assert told(["e", "deleted"]) == ({"c": 9, "d": 9, "e": 0}, 2)
    assert told(None) == (members, 0)
