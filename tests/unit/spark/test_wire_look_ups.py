"""The driver's look-ups while leaders change and brokers die, over nodes that need not agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.spark.client.wire import WireError
from kraft.spark.errors import LookUpFailed
from kraft.spark.source.leadership import Leader
from kraft.spark.source.options import EARLIEST, LATEST
from kraft.spark.source.pending_offsets import PendingOffsets
from kraft.spark.source.wire_look_ups import WireLookUps
from tests.unit.spark.fake_cluster import FakeCluster
from tests.unit.spark.many_nodes import ManyNodes, Node

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OLD, NEW, NONE = Leader(1, 4), Leader(2, 5), Leader(-1, 5)


def look_ups(nodes: ManyNodes, seconds: float = 30) -> WireLookUps:
    return WireLookUps(",".join(f"n{number}:1" for number in nodes.nodes), timeout_ms=int(seconds * 1000))


def at(nodes: ManyNodes, seconds: float, change: Callable[[], Any]) -> None:
    """`change`, so many seconds from now."""
    sleep, when = nodes.sleep, nodes.now + seconds
    changed: list[bool] = []

    def sleep_and_change(pause: float) -> None:
        sleep(pause)
        if nodes.now >= when and not changed:
            changed.append(True)
            change()

    nodes.pause = sleep_and_change


def test_all_partitions_of_a_leader_are_looked_up_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, t=12)
    for number, each in enumerate(cluster.topics["t"]):
        each.end = number
    made = WireLookUps("h:1")
    assert [each.partitions for each in made.describe(["t"])] == [tuple(range(12))]
    specs = {TopicPartition("t", each): LATEST for each in range(12)}
    assert made.list_offsets(specs, committed=False) == {TopicPartition("t", each): each for each in range(12)}
    assert cluster.asked.count("ListOffsetsRequest") == 1
    assert made.names() == ["t"]


def test_a_lookup_at_a_killed_leader_is_retried_until_another_is_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the dead one: its connection is refused, and others tell of the next leader."""
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, reachable=False), n2=Node(OLD), n3=Node(OLD))

    def elect() -> None:
        for node in nodes.nodes.values():
            node.leader = NEW

    at(nodes, 9, elect)
    assert look_ups(nodes).list_offsets({T0: LATEST}, committed=False) == {T0: 1000}
    assert 1009 <= nodes.now < 1010.1


def test_a_frozen_leader_is_replaced_by_the_one_that_other_nodes_report(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD), n2=Node(OLD), n3=Node(OLD))
    made = look_ups(nodes)
    assert made.list_offsets({T0: LATEST}, committed=False) == {T0: 1000}
    nodes.nodes[1].frozen = True
    nodes.nodes[2].leader = nodes.nodes[3].leader = NEW
    assert made.list_offsets({T0: LATEST}, committed=False) == {T0: 1000}
    assert nodes.nodes[2].asked.count("ListOffsetsRequest") == 1


@pytest.mark.parametrize("leader", [NONE, Leader(7, 5)])
def test_a_partition_without_a_leader_is_retried_until_the_deadline(
    monkeypatch: pytest.MonkeyPatch, leader: Leader
) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(leader))
    with pytest.raises(LookUpFailed, match=r"its leader is not available\. The look-up was retried for 5 s"):
        look_ups(nodes, 5).list_offsets({T0: LATEST}, committed=False)
    assert 1004 <= nodes.now <= 1005


def test_an_unreachable_cluster_is_retried_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, reachable=False), n2=Node(OLD, reachable=False))
    with pytest.raises(LookUpFailed, match="no broker can be reached"):
        look_ups(nodes, 5).describe(["t"])
    assert 1004 <= nodes.now <= 1005
    at(nodes, 2, lambda: setattr(nodes.nodes[2], "reachable", True))
    assert look_ups(nodes, 5).describe(["t"])[0].partitions == (0,)


def test_a_topic_unknown_to_one_broker_still_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(None), n2=Node(NEW), n3=Node(NEW))
    assert [each.name for each in look_ups(nodes).describe(["t"])] == ["t"]
    assert look_ups(nodes).list_offsets({T0: EARLIEST}, committed=False) == {T0: 0}


def test_a_topic_unknown_to_every_broker_is_missing_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(None), n2=Node(None), n3=Node(None))
    with pytest.raises(LookUpFailed, match="topic t: there is no such topic"):
        look_ups(nodes).describe(["t"])
    assert look_ups(nodes).describe(["t"], skip_missing=True) == []
    assert nodes.now < 1001


def test_a_deposed_leader_that_lags_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, high=900), n2=Node(NEW), n3=Node(NEW))
    made = look_ups(nodes)
    assert made.list_offsets({T0: LATEST}, committed=False) == {T0: 900}
    for _ in range(3):
        made.renew()
        assert made.list_offsets({T0: LATEST}, committed=False) == {T0: 1000}


def test_a_partition_missing_in_a_lagging_brokers_metadata_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, t=3)
    made = WireLookUps("h:1")
    made.describe(["t"])
    del cluster.topics["t"][2]
    assert made.describe(["t"])[0].partitions == (0, 1, 2)


def test_only_partitions_with_a_retriable_error_are_looked_up_again() -> None:
    pending = PendingOffsets({T0: LATEST, T1: LATEST})
    pending.answered(T0, ErrorCode.NONE, 7)
    pending.answered(T1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert (pending.left, pending.found) == ([T1], {T0: 7})
    assert "NOT_LEADER_OR_FOLLOWER" in pending.show()
    pending.answered(T1, ErrorCode.NONE, -1001)
    assert (pending.left, pending.show()) == (
        [T1],
        "offset of t-1: a broker returned the invalid offset -1001",
    )


def test_a_permanent_error_ends_the_lookup() -> None:
    with pytest.raises(WireError, match="TOPIC_AUTHORIZATION_FAILED"):
        PendingOffsets({T0: LATEST}).answered(T0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)


def test_a_timestamp_beyond_all_records_is_answered_with_minus_one() -> None:
    pending = PendingOffsets({T0: 5, T1: LATEST})
    pending.answered(T0, ErrorCode.NONE, -1)
    pending.answered(T1, ErrorCode.NONE, -1)
    assert (pending.found, pending.left) == ({T0: -1}, [T1])


class Groups(FakeCluster):
    """Takes offsets of groups; `codes` are of its answers, one each, the last one stays."""

    codes: tuple[int, ...] = (0,)

    def on_offsetcommit(self, request: Any) -> Any:
        code, *rest = self.codes
        self.codes = tuple(rest) or (code,)
        self.committed = {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
        }
        told = [OffsetCommitResponsePartition(partition_index=0, error_code=code)]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=told)])


def test_group_offsets_are_committed_at_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Groups(monkeypatch, t=2)
    cluster.codes = (ErrorCode.NOT_COORDINATOR, 0)
    WireLookUps("h:1").set_group_offsets("g", {T0: 5, T1: 7})
    assert cluster.committed == {T0: 5, T1: 7}
    assert cluster.asked.count("FindCoordinatorRequest") == 2


def test_an_unreachable_group_delays_a_micro_batch_for_a_few_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Groups(monkeypatch, t=2)
    cluster.codes = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)
    with pytest.raises(LookUpFailed, match=r"offsets of group g: .*COORDINATOR_LOAD_IN_PROGRESS"):
        WireLookUps("h:1").set_group_offsets("g", {T0: 5})
    assert cluster.clock.now <= 1005
    cluster.codes = (ErrorCode.UNKNOWN_MEMBER_ID,)  # The group has members.
    with pytest.raises(WireError, match="UNKNOWN_MEMBER_ID"):
        WireLookUps("h:1").set_group_offsets("g", {T0: 5})
