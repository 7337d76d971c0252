"""Kafka Streams with the streams rebalance protocol (KIP-1071), exactly once: an application of several processes with
a repartition topic, a store with a changelog, and standby copies, on one node of ours."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from jepsen.java.kafka import tool
from jepsen.three_nodes import until
from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.integration.streams_applications import SECONDS_MAX, Instance

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.min.session.timeout.ms": 1000,
    "group.streams.session.timeout.ms": 6000,
    "group.streams.min.heartbeat.interval.ms": 200,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.min.assignment.interval.ms": 0,
    "group.streams.assignment.interval.ms": 0,
}
APPLICATION = "words"
SOURCE, TARGET = "lines", "counts"
PARTITIONS = 4
TASKS = frozenset(f"{subtopology}_{partition}" for subtopology in (0, 1) for partition in range(PARTITIONS))
STATEFUL = frozenset(task for task in TASKS if task.startswith("1_"))
WORDS = [f"word-{number}" for number in range(12)]
WORDS_A_LINE = 3
LINES_A_SECOND = 50

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    require_capability("java17")
    require_capability("mvn")
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with NodeProcess(tmp_path / "node", *settings) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]).values():
            created.result(SECONDS_MAX)
        entry = ConfigEntry("streams.num.standby.replicas", "1", incremental_operation=AlterConfigOpType.SET)
        group = ConfigResource(ResourceType.GROUP, APPLICATION, incremental_configs=[entry])
        for altered in admin.incremental_alter_configs([group]).values():
            altered.result(SECONDS_MAX)
        yield node


def word_count(node: NodeProcess, directory: Path) -> Instance:
    return Instance("WordCount.java", directory, node.bootstrap, APPLICATION, SOURCE, TARGET)


class Writer:
    """Writes lines of random words until the block ends, and counts the words."""

    def __init__(self, node: NodeProcess) -> None:
        self._producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
        self._stopped = threading.Event()
        self.words: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="writer")

    def _run(self) -> None:
        chosen = random.Random(1)
        while not self._stopped.wait(1 / LINES_A_SECOND):
            words = chosen.choices(WORDS, k=WORDS_A_LINE)
            self.words.update(words)
            self._producer.produce(SOURCE, " ".join(words).encode())
            self._producer.poll(0)
        assert self._producer.flush(SECONDS_MAX) == 0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def counts(node: NodeProcess, expected: int) -> dict[str, list[int]]:
    """The counts of each word, in order, that readers of committed records see, as soon as there are `expected`."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(TARGET, index, 0) for index in range(PARTITIONS)])
    found: dict[str, list[int]] = {}
    deadline = time.monotonic() + SECONDS_MAX
    while sum(map(len, found.values())) < expected:
        assert time.monotonic() < deadline, {word: len(values) for word, values in found.items()}
        for message in consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            found.setdefault((message.key() or b"").decode(), []).append(int(message.value() or b""))
    for message in consumer.consume(500, 2.0):  # One too many would come now.
        found.setdefault((message.key() or b"").decode(), []).append(int(message.value() or b""))
    return found


def is_settled(instances: list[Instance]) -> bool:
    """Whether each task is active in one instance, and each stateful task has its standby copy in another."""
    tasks = [instance.tasks() for instance in instances]
    active = [task for each, _ in tasks for task in each]
    standby = [task for _, each in tasks for task in each]
    wanted = STATEFUL if len(instances) > 1 else frozenset()
    return (
        sorted(active) == sorted(TASKS)
        and sorted(standby) == sorted(wanted)
        and all(each and not each & copies for each, copies in tasks)
    )


def test_a_streams_group_counts_each_word_once_while_instances_die_close_and_join(
    node: NodeProcess, tmp_path: Path
) -> None:
    instances = [word_count(node, tmp_path / f"instance-{number}") for number in range(2)]
    with Writer(node) as writer:
        until(lambda: is_settled(instances), "two instances do not share the tasks")
        instances.append(word_count(node, tmp_path / "instance-2"))
        until(lambda: is_settled(instances), "a third instance gets no tasks")
        instances.pop(0).kill()
        until(lambda: is_settled(instances), "nobody has the tasks of the killed instance")
        assert instances.pop(0).stop() == 0
        until(lambda: is_settled(instances), "nobody has the tasks of the closed instance")
    total = sum(writer.words.values())
    assert counts(node, total) == {word: list(range(1, count + 1)) for word, count in writer.words.items()}
    server = ("--bootstrap-server", node.bootstrap)
    described = tool("streams-groups", *server, "--describe", "--group", APPLICATION, "--members").stdout
    assert "ACTIVE: 0:[0,1,2,3]; 1:[0,1,2,3];" in described, described
    refused = tool("streams-groups", *server, "--delete", "--group", APPLICATION).stdout
    assert "is not EMPTY" in refused, refused
    assert [instance.stop() for instance in instances] == [0]
    deleted = tool("streams-groups", *server, "--delete", "--group", APPLICATION).stdout
    assert "was successful" in deleted, deleted
