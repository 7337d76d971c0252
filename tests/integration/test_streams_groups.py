"""Kafka Streams with the streams rebalance protocol (KIP-1071), exactly once: an application of several processes with
a repartition topic, a store with a changelog, and standby copies, and one that joins a stream with a table."""

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
from jepsen.three_nodes import NODES, ThreeNodes, until
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
JOINING = "invoices"
ORDERS, PRICES, INVOICES = "orders", "prices", "priced-orders"
PARTITIONS = 4
TASKS = frozenset(f"{subtopology}_{partition}" for subtopology in (0, 1) for partition in range(PARTITIONS))
STATEFUL = frozenset(task for task in TASKS if task.startswith("1_"))
JOIN_TASKS = frozenset(f"0_{partition}" for partition in range(PARTITIONS))
WORDS = [f"word-{number}" for number in range(12)]
WORDS_A_LINE = 3
LINES_A_SECOND = 50

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def options() -> list[str]:
    """The options of a node. Skips the test where no application can run."""
    require_capability("java17")
    require_capability("mvn")
    return [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node", *options()) as node:
        yield node


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreeNodes]:
    with ThreeNodes(tmp_path / "cluster", *options()) as cluster:
        yield cluster


def prepare(bootstrap: str, group: str, *topics: str, replicas: int = 1) -> None:
    """Create topics, and configure a standby copy of each store of a group."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(name, PARTITIONS, replicas) for name in topics]).values():
        created.result(SECONDS_MAX)
    entry = ConfigEntry("streams.num.standby.replicas", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(SECONDS_MAX)


def word_count(bootstrap: str, directory: Path, *settings: str) -> Instance:
    arguments = ("count", bootstrap, APPLICATION, SOURCE, TARGET)
    return Instance("StreamsGroup.java", directory, *arguments, settings=settings)


def priced_orders(bootstrap: str, directory: Path) -> Instance:
    arguments = ("join", bootstrap, JOINING, f"{ORDERS},{PRICES}", INVOICES)
    return Instance("StreamsGroup.java", directory, *arguments)


class Writer:
    """Writes lines of random words until the block ends, and counts the words."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 0, "log_level": 0}
        )
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


class Reader:
    """Reads the committed records of a topic from its start."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed", "log_level": 0}
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        self.values: dict[str, list[str]] = {}
        """The values of each key, in order."""

    def until(self, expected: int) -> None:
        """Read until there are `expected` records, or more."""
        deadline = time.monotonic() + SECONDS_MAX
        while self._count() < expected:
            assert time.monotonic() < deadline, f"{self._count()} of {expected} records: {self.values}"
            self._read(0.5)

    def all(self, expected: int) -> dict[str, list[str]]:
        """Return the values of each key as soon as there are `expected` records, and all that follow at once."""
        self.until(expected)
        self._read(2.0)  # A record too many would come now.
        return self.values

    def _count(self) -> int:
        return sum(map(len, self.values.values()))

    def _read(self, seconds: float) -> None:
        for message in self._consumer.consume(500, seconds):
            assert message.error() is None, message.error()
            self.values.setdefault((message.key() or b"").decode(), []).append((message.value() or b"").decode())


def assert_counted_once(reader: Reader, words: Counter[str]) -> None:
    expected = {word: [str(number) for number in range(1, count + 1)] for word, count in words.items()}
    assert reader.all(words.total()) == expected


def is_settled(
    instances: list[Instance], all_tasks: frozenset[str] = TASKS, stateful: frozenset[str] = STATEFUL
) -> bool:
    """Whether each task is active in one instance, and each stateful task has its standby copy in another."""
    tasks = [instance.tasks() for instance in instances]
    active = [task for each, _ in tasks for task in each]
    standby = [task for _, each in tasks for task in each]
    wanted = stateful if len(instances) > 1 else frozenset()
    return (
        sorted(active) == sorted(all_tasks)
        and sorted(standby) == sorted(wanted)
        and all(each and not each & copies for each, copies in tasks)
    )


def test_a_streams_group_counts_each_word_once_while_instances_die_close_and_join(
    node: NodeProcess, tmp_path: Path
) -> None:
    prepare(node.bootstrap, APPLICATION, SOURCE, TARGET)
    instances = [word_count(node.bootstrap, tmp_path / f"instance-{number}") for number in range(2)]
    with Writer(node.bootstrap) as writer:
        until(lambda: is_settled(instances), "two instances do not share the tasks")
        instances.append(word_count(node.bootstrap, tmp_path / "instance-2"))
        until(lambda: is_settled(instances), "a third instance gets no tasks")
        instances.pop(0).kill()
        until(lambda: is_settled(instances), "nobody has the tasks of the killed instance")
        assert instances.pop(0).stop() == 0
        until(lambda: is_settled(instances), "nobody has the tasks of the closed instance")
    assert_counted_once(Reader(node.bootstrap, TARGET), writer.words)
    server = ("--bootstrap-server", node.bootstrap)
    described = tool("streams-groups", *server, "--describe", "--group", APPLICATION, "--members").stdout
    assert "ACTIVE: 0:[0,1,2,3]; 1:[0,1,2,3];" in described, described
    refused = tool("streams-groups", *server, "--delete", "--group", APPLICATION).stdout
    assert "is not EMPTY" in refused, refused
    assert [instance.stop() for instance in instances] == [0]
    deleted = tool("streams-groups", *server, "--delete", "--group", APPLICATION).stdout
    assert "was successful" in deleted, deleted


def restart(cluster: ThreeNodes, node: int) -> None:
    """Stop a node in order and start it. Returns when all replicas of the application's topics are in sync."""
    assert cluster.nodes[node].stop() == 0
    cluster.start([node])
    for topic in (TARGET, f"{APPLICATION}-counts-changelog", "__transaction_state", "__consumer_offsets"):
        cluster.until_in_sync(topic)


def test_a_streams_group_counts_each_word_once_while_each_broker_restarts(cluster: ThreeNodes, tmp_path: Path) -> None:
    prepare(cluster.bootstrap, APPLICATION, SOURCE, TARGET, replicas=3)
    settings = ("replication.factor=3", "topic.min.insync.replicas=2")
    instances = [word_count(cluster.bootstrap, tmp_path / f"instance-{number}", *settings) for number in range(2)]
    reader = Reader(cluster.bootstrap, TARGET)
    with Writer(cluster.bootstrap) as writer:
        until(lambda: is_settled(instances), "two instances do not share the tasks")
        for restarted in NODES:
            restart(cluster, restarted)
            until(lambda: is_settled(instances), f"the tasks are not shared after the restart of node {restarted}")
            reader.until(writer.words.total())
    reader.until(writer.words.total())
    restart(cluster, cluster.leader("__consumer_offsets"))  # No later commits hide what a new coordinator has loaded.
    assert instances.pop(0).stop() == 0
    until(lambda: is_settled(instances), "nobody has the tasks of the closed instance")
    with Writer(cluster.bootstrap) as later:
        until(lambda: later.words.total() > LINES_A_SECOND, "nothing is written")
    assert_counted_once(reader, writer.words + later.words)
    assert [instance.stop() for instance in instances] == [0]


def test_a_stream_joins_a_table_of_as_many_partitions_once_each_while_an_instance_dies(
    node: NodeProcess, tmp_path: Path
) -> None:
    """A record of the stream finds the price of its key that was written before it, also after a restart."""
    prepare(node.bootstrap, JOINING, ORDERS, PRICES, INVOICES)
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    expected: dict[str, list[str]] = {word: [] for word in WORDS}

    def set_prices(price: str) -> None:
        for word in WORDS:
            producer.produce(PRICES, f"{price} {word}".encode(), word.encode())
        assert producer.flush(SECONDS_MAX) == 0

    def order(numbers: range, price: str) -> None:
        for number in numbers:
            word = WORDS[number % len(WORDS)]
            producer.produce(ORDERS, str(number).encode(), word.encode())
            expected[word].append(f"{number} {price} {word}")
        assert producer.flush(SECONDS_MAX) == 0

    set_prices("first")
    reader = Reader(node.bootstrap, INVOICES)
    instances = [priced_orders(node.bootstrap, tmp_path / f"instance-{number}") for number in range(2)]
    until(lambda: is_settled(instances, JOIN_TASKS, JOIN_TASKS), "two instances do not share the tasks")
    order(range(200), "first")
    reader.until(1)
    instances.pop(0).kill()
    order(range(200, 400), "first")
    until(lambda: is_settled(instances, JOIN_TASKS, JOIN_TASKS), "nobody has the tasks of the killed instance")
    reader.until(400)
    assert instances.pop().stop() == 0
    set_prices("second")
    order(range(400, 600), "second")
    instance = priced_orders(node.bootstrap, tmp_path / "instance-1")
    assert reader.all(600) == expected
    assert instance.stop() == 0
