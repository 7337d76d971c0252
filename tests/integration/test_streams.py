"""Kafka Streams, exactly once: an application of two instances with a store whose changelog is a topic, while they and
nodes die."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from jepsen.three_nodes import NODES, ThreeNodes
from kraft.testing.foreign.librdkafka import Consumer, Producer
from tests.capabilities import require_capability
from tests.integration.streams_applications import SECONDS_MAX, Instance

SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
}
PARTITIONS = 4
KEYS = 10
RECORDS_A_SECOND = 100
APPLICATION = "counting"
SOURCE, TARGET = "events", "counts"

pytestmark = pytest.mark.java


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreeNodes]:
    require_capability("java17")
    require_capability("mvn")
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with ThreeNodes(tmp_path / "cluster", *settings) as cluster:
        for topic in (SOURCE, TARGET):
            cluster.create(topic, PARTITIONS)
        yield cluster


def counting(cluster: ThreeNodes, directory: Path) -> Instance:
    return Instance("Counting.java", directory, cluster.bootstrap, APPLICATION, SOURCE, TARGET)


class Writer:
    """Writes records with keys by turns until it is told to stop."""

    def __init__(self, cluster: ThreeNodes) -> None:
        self._producer = Producer(cluster.servers(enable_idempotence=True, message_timeout_ms=0))
        self._stopped = threading.Event()
        self.written = 0
        self._thread = threading.Thread(target=self._run, name="writer")

    def _run(self) -> None:
        while not self._stopped.wait(1 / RECORDS_A_SECOND):
            self._producer.produce(SOURCE, b"value", str(self.written % KEYS).encode())
            self.written += 1
            self._producer.poll(0)
        assert self._producer.flush(SECONDS_MAX) == 0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def counts(cluster: ThreeNodes, enough: Callable[[int], bool]) -> dict[str, list[int]]:
    """What readers of committed records see for each key, in order, as soon as there are `enough`."""
    consumer = Consumer(
        cluster.servers(group_id="counts", isolation_level="read_committed", auto_offset_reset="earliest")
    )
    consumer.assign([TopicPartition(TARGET, index, 0) for index in range(PARTITIONS)])
    found: dict[str, list[int]] = {}
    deadline = time.monotonic() + SECONDS_MAX
    while not enough(sum(map(len, found.values()))):
        assert time.monotonic() < deadline, {key: len(values) for key, values in found.items()}
        for message in consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            found.setdefault((message.key() or b"").decode(), []).append(int(message.value() or b""))
    for message in consumer.consume(500, 2.0):  # One too many would come now.
        found.setdefault((message.key() or b"").decode(), []).append(int(message.value() or b""))
    return found


def assert_each_is_counted_once(cluster: ThreeNodes, written: int) -> None:
    found = counts(cluster, lambda seen: seen >= written)
    expected = {str(key): list(range(1, len(range(key, written, KEYS)) + 1)) for key in range(KEYS)}
    assert found == expected


def test_kafka_streams_counts_each_record_once_while_an_instance_and_a_leader_die(
    cluster: ThreeNodes, tmp_path: Path
) -> None:
    instances = [counting(cluster, tmp_path / f"instance-{number}") for number in range(2)]
    with Writer(cluster) as writer:
        for instance in instances:
            instance.until_running()
        instances[0].kill()
        victim = cluster.leader(f"{APPLICATION}-counts-changelog")
        cluster.kill([victim])
        instances[0] = counting(cluster, tmp_path / "instance-0")
        cluster.start([victim])
        instances[0].until_running()
    assert_each_is_counted_once(cluster, writer.written)
    assert [instance.stop() for instance in instances] == [0, 0]


@pytest.mark.soak
def test_kafka_streams_counts_each_record_once_while_all_instances_die_in_turn_and_nodes_restart(
    cluster: ThreeNodes, tmp_path: Path
) -> None:
    instances = [counting(cluster, tmp_path / f"instance-{number}") for number in range(2)]
    with Writer(cluster) as writer:
        for instance in instances:
            instance.until_running()
        for topic in ("__transaction_state", "__consumer_offsets", TARGET, f"{APPLICATION}-counts-changelog"):
            victim = cluster.leader(topic)
            cluster.kill([victim])
            time.sleep(3)
            cluster.start([victim])
            cluster.until_in_sync(topic)
            instances[0].kill()
            instances[0] = counting(cluster, tmp_path / "instance-0")
            instances[0].until_running()
        for node in NODES:  # A rolling restart.
            assert cluster.nodes[node].stop() == 0
            cluster.start([node])
            cluster.until_in_sync(TARGET)
    assert_each_is_counted_once(cluster, writer.written)
    assert [instance.stop() for instance in instances] == [0, 0]
