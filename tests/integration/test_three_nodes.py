"""Three processes and unmodified clients: whatever dies, nothing that was acknowledged is lost, and the replicas end
up equal."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from jepsen.three_nodes import NODES, ThreeNodes, assert_nothing_lost, until
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.testing.foreign.librdkafka import Consumer
from kraft.testing.steady_writer import SteadyWriter


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    with ThreeNodes(tmp_path_factory.mktemp("three-nodes")) as cluster:
        yield cluster


def test_a_killed_leader_is_replaced_and_returns(cluster: ThreeNodes) -> None:
    topic = cluster.create("leader-dies")
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(200)
        victim = cluster.leader(topic)
        cluster.nodes[victim].kill()
        writer.more(200)
        until(lambda: cluster.leader(topic) != victim, "a node has not heard who leads now")
        cluster.nodes[victim].start()
        cluster.until_in_sync(topic)
        writer.more(100)
    print(f"longest gap without an acknowledged write: {writer.longest_gap():.2f} s")
    assert_nothing_lost(cluster, topic, writer)


def test_no_acknowledged_record_is_lost_while_every_node_dies_in_turn(cluster: ThreeNodes) -> None:
    topic = cluster.create("each-dies")
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        for node in NODES:
            writer.more(50)
            cluster.nodes[node].kill()
            writer.more(50)
            cluster.nodes[node].start()
            cluster.until_in_sync(topic)
    assert_nothing_lost(cluster, topic, writer)


def test_a_rolling_restart_fails_no_write(cluster: ThreeNodes) -> None:
    topic = cluster.create("rolling")
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        for node in NODES:
            writer.more(50)
            assert cluster.nodes[node].stop() == 0
            cluster.nodes[node].start()
            cluster.until_in_sync(topic)
    assert_nothing_lost(cluster, topic, writer)


def test_a_group_continues_when_its_coordinator_dies(cluster: ThreeNodes) -> None:
    topic = cluster.create("group-goes-on")
    consumer = Consumer(
        cluster.servers(
            group_id="survivors", auto_offset_reset="earliest", enable_auto_commit=False, session_timeout_ms=10_000
        )
    )
    consumer.subscribe([topic])
    seen: list[int] = []

    def read(count: int) -> None:
        def enough() -> bool:
            seen.extend(int(message.value() or b"-1") for message in consumer.consume(1000, 0.1) if not message.error())
            return len(seen) >= count

        until(enough, f"the group has read {len(seen)} of {count}")

    try:
        with SteadyWriter(cluster.bootstrap, topic) as writer:
            read(100)
            consumer.commit(asynchronous=False)
            committed = consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset
            victim = cluster.leader("__consumer_offsets", _coordinator_partition("survivors"))
            cluster.nodes[victim].kill()
            writer.more(100)
            read(len(seen) + 100)
            assert consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset == committed
            consumer.commit(asynchronous=False)
            cluster.nodes[victim].start()
            writer.more(50)
        read(len(writer.acknowledged))
    finally:
        consumer.close()
    assert sorted(set(seen)) == sorted(int(value) for value, _, _ in writer.acknowledged)


def _coordinator_partition(group: str) -> int:
    hashed = 0
    for letter in group:
        hashed = (31 * hashed + ord(letter)) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF if hashed < 1 << 31 else abs(hashed - (1 << 32))) % 50


def test_writes_are_rejected_while_too_few_replicas_are_in_sync(cluster: ThreeNodes) -> None:
    topic = cluster.create("two-die")
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(50)
        leader = cluster.leader(topic)
        others = [node for node in NODES if node != leader]
        for node in others:
            cluster.nodes[node].kill()
        time.sleep(1)
        while_alone = len(writer.acknowledged)
        time.sleep(1)
        assert len(writer.acknowledged) == while_alone, "acknowledged by one replica where two are asked for"
        cluster.start(others)
        writer.more(50)
    assert_nothing_lost(cluster, topic, writer)


def test_a_replica_moves_to_a_broker_that_has_no_data_of_it(cluster: ThreeNodes) -> None:
    topic = cluster.create("moves", replicas=2)
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(100)
        before = list(cluster.partitions(topic)[0].replicas)
        target = [node for node in NODES if node not in before] + before[:1]
        request = ReassignablePartition(partition_index=0, replicas=target)
        wanted = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[request])], timeout_ms=10_000
        )
        answer = cluster.ask(before[0], wanted)
        assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
        until(lambda: sorted(cluster.partitions(topic)[0].replicas) == sorted(target), "the reassignment does not end")
        assert not cluster.ask(before[0], ListPartitionReassignmentsRequest()).topics
        writer.more(100)
    assert not writer.failed
    until(lambda: sorted(cluster.partitions(topic)[0].isrs) == sorted(target), "the new replicas are not in sync")
    until(
        lambda: cluster.records(target[0], topic, 0) == cluster.records(target[1], topic, 0) != b"",
        "the replicas differ",
    )
    values = [value for _, _, value in cluster.read(topic, len(writer.acknowledged))]
    assert {value for value, _, _ in writer.acknowledged} <= set(values)
    gone = cluster.nodes[before[1]].directory / "data" / f"{topic}-0"
    until(lambda: not gone.exists(), "the replica that was given up is still there")


def test_preferred_leaders_return_after_a_restart(cluster: ThreeNodes) -> None:
    topic = cluster.create("preferred", 3)
    preferred = {index: partition.replicas[0] for index, partition in cluster.partitions(topic).items()}
    cluster.nodes[1].kill()
    until(
        lambda: all(partition.leader in (2, 3) for partition in cluster.partitions(topic).values()),
        "leaders stay with the dead",
    )
    cluster.nodes[1].start()
    cluster.until_in_sync(topic)
    answer = cluster.ask(1, ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000))
    assert answer.error_code == 0
    until(
        lambda: {index: partition.leader for index, partition in cluster.partitions(topic).items()} == preferred,
        "preferred leaders are not elected",
    )
