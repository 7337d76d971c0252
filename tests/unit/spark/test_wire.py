"""Which node is asked, and whom it is believed that leads."""

from __future__ import annotations

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.spark.client.wire import WireError
from kraft.spark.source.leadership import Leader
from tests.unit.spark.many_nodes import ManyNodes, Node

OLD, NEW = Leader(1, 4), Leader(2, 5)


def test_a_pooled_connection_that_died_unnoticed_is_reopened(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD))
    cluster = nodes.cluster()
    cluster.partitions("t")
    nodes.opened[0].dead = True
    assert cluster.partitions("t", fresh=True) == {0: 1}
    assert len(nodes.opened) == 2


def test_requests_stay_on_one_node_until_its_response_is_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD), n2=Node(OLD), n3=Node(OLD))
    cluster = nodes.cluster()
    for _ in range(3):
        cluster.partitions("t", fresh=True)
    assert [len(node.asked) for node in nodes.nodes.values()] == [3, 0, 0]
    for _ in range(3):
        cluster.stale("t")
        cluster.partitions("t")
    assert [len(node.asked) for node in nodes.nodes.values()] == [4, 1, 1]


def test_an_unreachable_node_is_avoided_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, reachable=False), n2=Node(OLD), n3=Node(OLD))
    cluster = nodes.cluster()
    cluster.partitions("t")
    nodes.nodes[1].reachable = True
    for _ in range(4):
        cluster.stale("t")
        cluster.partitions("t")
    assert nodes.nodes[1].asked == []
    nodes.sleep(11)
    cluster.stale("t")
    cluster.partitions("t")
    assert nodes.nodes[1].asked == ["MetadataRequest"]


def test_metadata_with_an_older_leader_epoch_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(NEW), n2=Node(OLD), n3=Node(OLD))
    cluster = nodes.cluster()
    for _ in range(3):
        assert cluster.partitions("t") == {0: 2}
        assert cluster.view.epoch("t", 0) == 5
        cluster.stale("t")


def test_the_leader_epochs_of_a_recreated_topic_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(NEW), n2=Node(OLD, topic_id=bytes(15) + b"\1"))
    cluster = nodes.cluster()
    cluster.partitions("t")
    cluster.stale("t")
    assert cluster.partitions("t") == {0: 1}
    assert cluster.view.epoch("t", 0) == 4


def test_offsets_are_requested_from_the_leader_that_other_nodes_report(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, high=900), n2=Node(NEW), n3=Node(NEW))
    cluster = nodes.cluster()
    assert cluster.offset("t", 0, -1, nodes.now) == 900
    cluster.stale("t")
    assert cluster.offset("t", 0, -1, nodes.now) == 1000


def test_a_leader_that_does_not_know_its_epoch_yet_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(Leader(1, 5)), n2=Node(Leader(1, 5)))
    cluster = nodes.cluster()
    cluster.partitions("t")
    nodes.nodes[1].leader = OLD
    with pytest.raises(WireError) as refused:
        cluster.offset("t", 0, -1, nodes.now + 1)
    assert refused.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH
    nodes.nodes[1].leader = Leader(1, 5)
    assert cluster.offset("t", 0, -1, nodes.now) == 1000


def test_the_metadata_of_every_node_is_returned_and_the_newest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD), n2=Node(NEW), n3=Node(None))
    cluster = nodes.cluster()
    cluster.partitions("t")
    seen = cluster.views("t", 0)
    assert (seen.listed, dict(seen.told)) == (3, {1: OLD, 2: NEW, 3: None})
    assert cluster.view.leader("t", 0) == NEW
    nodes.nodes[3].reachable = False
    assert dict(cluster.views("t", 0).told) == {1: OLD, 2: NEW}


def test_an_invalid_offset_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, high=-1))
    with pytest.raises(WireError, match="t-0: the leader returned the invalid offset -1") as refused:
        nodes.cluster().offset("t", 0, -1, nodes.now + 1)
    assert refused.value.code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert nodes.cluster().offset("t", 0, 5, nodes.now) == -1  # No record is as late.
