"""Streams groups in the facts that a node gathers of its groups: metrics, owners of partitions, groups of a topic."""

from __future__ import annotations

import trio

from kraft.common.ids import TopicPartition
from kraft.common.metrics import MetricsRegistry, render_prometheus
from kraft.coordinator.group.activity import STREAMS, GroupActivity, GroupChange, GroupEvent
from kraft.server.facts.group_progress import Ownership
from kraft.server.facts.topic_groups import groups_of_topic
from kraft.server.metrics.group_families import group_families, register_group_activity
from tests.unit.coordinator.group.streams.applications import Application, reads, topology

PREFIX = "kafka_server_group_coordinator_metrics_"


def settled() -> Application:
    """Two members share the tasks of topics with two and with one partition."""
    made = Application(topology(reads("t", name="0"), reads("u", name="1")))
    made.host.topics.counts.update({"t": 2, "u": 1})
    made.join("a")
    made.join("b")
    made.settle("a", "b")
    return made


def test_streams_groups_are_counted_by_state_and_with_their_members() -> None:
    made = settled()
    families = {family.name: family for family in trio.run(group_families, [made.host.state], None)}

    def read(name: str) -> dict[tuple[str, ...], float]:
        reader = families[name].read
        assert reader is not None
        return dict(reader())

    assert read(f"{PREFIX}group_count")["streams",] == 1
    states = {"empty": 0, "notready": 0, "assigning": 0, "reconciling": 0, "stable": 1, "dead": 0}
    assert read(f"{PREFIX}streams_group_count") == {(state,): count for state, count in states.items()}
    assert read("kafka_consumergroup_members") == {("g",): 2}


def test_rebalances_of_streams_groups_are_counted() -> None:
    activity, registry = GroupActivity(), MetricsRegistry()
    register_group_activity(registry, activity)
    activity.hear(0, GroupChange("g", STREAMS, GroupEvent.UNSETTLED), 1.0)
    assert f"{PREFIX}streams_group_rebalance_count 1" in "".join(render_prometheus(registry.families()))


def test_a_member_of_a_streams_group_owns_the_partitions_that_its_active_tasks_read() -> None:
    made = settled()
    owned = trio.run(Ownership().of, [made.host.state], made.host.topics)
    places = {"0": "t", "1": "u"}
    expected = {
        TopicPartition(places[subtopology], index): member
        for member in ("a", "b")
        for subtopology, indexes in made.active(member).items()
        for index in indexes
    }
    assert len(expected) == 3
    assert {place: owner.member_id for place, owner in owned["g"].items()} == expected


def test_a_streams_group_with_members_uses_the_topics_of_its_topology() -> None:
    made = settled()
    assert [trio.run(groups_of_topic, [made.host.state], topic) for topic in ("t", "u", "v")] == [["g"], ["g"], []]
