"""Three processes under load: replicas given up, promised and taken back; what a node that was down learns of topics
and records deleted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from jepsen.three_nodes import NODES, ThreeNodes, assert_acknowledged, until
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.testing.foreign.librdkafka import AdminClient
from kraft.testing.steady_writer import SteadyWriter

SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": 500,
    "log.segment.delete.delay.ms": 100,
    "offsets.topic.num.partitions": 2,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with ThreeNodes(tmp_path_factory.mktemp("replicas"), *settings) as cluster:
        yield cluster


def reassign(cluster: ThreeNodes, asked: int, topic: str, target: list[int] | None) -> None:
    """None cancels."""
    partition = ReassignablePartition(partition_index=0, replicas=target)
    answer = cluster.ask(
        asked,
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[partition])], timeout_ms=10_000
        ),
    )
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)


def replicas(cluster: ThreeNodes, asked: int, topic: str) -> tuple[list[int], list[int]]:
    """Assigned, and in sync."""
    found = cluster.told_by(asked, topic)[0]
    return sorted(found.replica_nodes), sorted(found.isr_nodes)


def log_start(cluster: ThreeNodes, node: int, topic: str) -> int:
    """As the replica has written it down; -1 before it has."""
    path = cluster.nodes[node].directory / "data" / "log-start-offset-checkpoint"
    rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return next((int(offset) for name, _, offset in rows if name == topic), -1)


def assert_read_from(cluster: ThreeNodes, topic: str, writer: SteadyWriter, start: int) -> None:
    """Each record from `start` on, which is where the log starts, once and in order."""
    count = len(writer.acknowledged)
    assert [(offset, int(value)) for _, offset, value in cluster.read(topic, count - start)] == [
        (offset, offset) for offset in range(start, count)
    ]


def test_a_partition_loses_replicas_and_a_move_is_cancelled_under_load(cluster: ThreeNodes) -> None:
    topic = cluster.create("shrinks")
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(100)
        leader = cluster.leader(topic)
        given_up, absent = (node for node in NODES if node != leader)
        kept = sorted((leader, absent))
        reassign(cluster, leader, topic, kept)
        until(lambda: replicas(cluster, leader, topic) == (kept, kept), "the partition does not shrink")
        assert not cluster.ask(leader, ListPartitionReassignmentsRequest()).topics
        until(
            lambda: not (cluster.nodes[given_up].directory / "data" / f"{topic}-0").exists(),
            "the replica that was given up is still there",
        )
        writer.more(50)
        cluster.nodes[given_up].kill()
        reassign(cluster, leader, topic, [given_up, leader])  # It cannot end while that node is down.
        moves = cluster.ask(leader, ListPartitionReassignmentsRequest()).topics[0].partitions[0]
        assert (moves.adding_replicas, moves.removing_replicas) == ([given_up], [absent])
        writer.more(50)
        reassign(cluster, leader, topic, None)
        cluster.nodes[given_up].start()
        until(lambda: not cluster.ask(leader, ListPartitionReassignmentsRequest()).topics, "a move is under way")
        writer.more(50)
    until(lambda: replicas(cluster, leader, topic) == (kept, kept), "the partition is not as it was before the move")
    cluster.until_agree(topic, nodes=kept)
    assert_acknowledged(cluster, topic, writer)


def test_a_node_that_missed_a_topic_recreation_drops_the_old_log_and_follows_the_new_one(cluster: ThreeNodes) -> None:
    gone, again = cluster.create("gone"), cluster.create("again")
    for topic in (gone, again):
        with SteadyWriter(cluster.bootstrap, topic) as writer:
            writer.more(50)
        cluster.until_in_sync(topic)
    victim = cluster.leader(gone)
    cluster.nodes[victim].kill()
    admin = AdminClient(cluster.servers())
    for deleted in admin.delete_topics([gone, again], operation_timeout=30).values():
        deleted.result(60)
    left = [cluster.nodes[node].directory / "data" / f"{gone}-0" for node in NODES if node != victim]
    until(lambda: not any(path.exists() for path in left), "a replica of a deleted topic is still there")
    assert (cluster.nodes[victim].directory / "data" / f"{gone}-0").exists()
    assignment = [node for node in NODES if node != victim]
    cluster.create(again, replicas=2)
    assert sorted(cluster.partitions(again)[0].replicas) == assignment
    reassign_to = [*assignment, victim]
    cluster.nodes[victim].start()
    until(
        lambda: not (cluster.nodes[victim].directory / "data" / f"{gone}-0").exists(),
        "the deleted topic's replica came back",
    )
    reassign(cluster, victim, again, reassign_to)
    with SteadyWriter(cluster.bootstrap, again) as writer:
        writer.more(50)
        until(
            lambda: replicas(cluster, victim, again) == ([*NODES], [*NODES]), "the new topic's replica is not in sync"
        )
    cluster.until_identical(again)
    assert_acknowledged(cluster, again, writer)


def test_a_node_that_missed_delete_records_follows_the_new_log_start(cluster: ThreeNodes) -> None:
    topic = cluster.create("deleted-records")
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(300)
        cluster.until_in_sync(topic)
        leader = cluster.leader(topic)
        victim = next(node for node in NODES if node != leader)
        cluster.nodes[victim].kill()
        writer.more(100)
        wanted = 250
        admin = AdminClient(cluster.servers())
        ((_, deleted),) = admin.delete_records([TopicPartition(topic, 0, wanted)], operation_timeout=30).items()
        assert deleted.result(60).low_watermark == wanted
        writer.more(100)
        cluster.nodes[victim].start()
        cluster.until_in_sync(topic)
        writer.more(50)
    until(
        lambda: {log_start(cluster, node, topic) for node in NODES} == {wanted},
        "a replica's log start has not followed",
    )
    cluster.until_agree(topic)
    assert not writer.failed
    assert_read_from(cluster, topic, writer, wanted)
