"""A cluster of three combined nodes whose nodes change between Apache Kafka and ours, over the same directories, ports
and properties; and clients that work meanwhile and keep account."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from jepsen.java.kafka import CLUSTER_ID, ApacheKafka, tool
from kraft.common.ids import uuid_to_text
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from tests.integration.kafka_refusals import kafkas_copies

SECONDS_MAX: Final = 90.0
PARTITIONS: Final = 3
TOPICS: Final = ("plain", "compacted", "transactional", "queue")
GROUPS: Final = {
    "classic plain": "plain",
    "consumer plain": "plain",
    "consumer transactional": "transactional",
    "share": "queue",
}
"""The topic that each group reads. The first word is the group's protocol."""
KEYS: Final = 50
COORDINATOR_MOVES: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


DISKS: Final = ("a", "b")
"""The log directories of a separate broker."""


def internal_topics(replicas: int) -> dict[str, str]:
    return {
        **{
            f"{topic}.replication.factor": str(replicas)
            for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        },
        "transaction.state.log.min.isr": str(replicas - 1),
        "share.coordinator.state.topic.min.isr": str(replicas - 1),
        "min.insync.replicas": str(replicas - 1),
    }


def until(is_so: Callable[[], bool], what: str, seconds: float = SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.1)


class Member:
    """One node of the cluster: Kafka's program or ours on the same directories."""

    def __init__(self, kafka: ApacheKafka, disks: Sequence[str] = ("data",)) -> None:
        self.kafka = kafka
        self.ours = NodeProcess(
            kafka.directory,
            "--config",
            str(kafka.directory / "server.properties"),
            listen=None,
            controller_listen=None,
            disks=disks,
        )
        self.is_ours = False

    def stop(self, *, kill: bool = False) -> None:
        running = self.ours if self.is_ours else self.kafka
        if kill:
            running.kill()
        else:
            running.stop()

    def start(self, *, ours: bool) -> None:
        self.is_ours = ours
        if ours:
            self.ours.start()
        else:
            self.kafka.launch()
            self.kafka.wait_until_listening()


class RollingCluster:
    """Nodes that Apache Kafka's `kafka-storage` formats, with default features; a quorum of dynamic voters
    (kraft.version 1), or of static ones. Three combined nodes, or three controllers and two brokers of two log
    directories each."""

    def __init__(
        self,
        directory: Path,
        *,
        dynamic: bool,
        release: str,
        settings: dict[str, str] | None = None,
        login: dict[str, str] | None = None,
        format_options: Sequence[str] = (),
        brokers: Sequence[int] = (),
    ) -> None:
        """`login` are librdkafka's settings of an administrator. `format_options` are those of `kafka-storage`.
        `brokers` are the ids of separate brokers; none: combined nodes."""
        self.controllers: Final = (1, 2, 3)
        self.brokers: Final = tuple(brokers) or self.controllers
        self.replicas: Final = len(self.brokers)
        self.dynamic = dynamic
        self.release = release
        self.login = login or {}
        self.format_options = tuple(format_options)
        ports = free_ports(6)
        controllers = {number: f"127.0.0.1:{ports[2 + number]}" for number in self.controllers}
        quorum = (
            {"controller.quorum.bootstrap.servers": ",".join(controllers.values())}
            if dynamic
            else {"controller.quorum.voters": ",".join(f"{number}@{at}" for number, at in controllers.items())}
        )
        shared = {
            **quorum,
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "share.coordinator.state.topic.num.partitions": "3",
            "log.cleaner.backoff.ms": "1000",
            **internal_topics(self.replicas),
            **(settings or {}),
        }
        self.members: dict[int, Member] = {}
        for number in dict.fromkeys((*self.controllers, *self.brokers)):
            kafka = ApacheKafka(
                directory / f"node{number}",
                port=ports[self.brokers.index(number)] if number in self.brokers else ports[2 + number],
                controller_port=ports[2 + number] if number in self.controllers else ports[3],
                node_id=number,
                settings=shared,
                heap="-Xmx384M",
                release=release,
            )
            disks = ("data",)
            if not brokers:
                pass
            elif number in self.controllers:
                own = {"process.roles": "controller", "listeners": f"CONTROLLER://{controllers[number]}"}
                kafka.settings.update(own)
            else:
                disks = DISKS
                folders = ",".join(str(kafka.directory / name) for name in disks)
                own = {"process.roles": "broker", "listeners": f"PLAINTEXT://{kafka.bootstrap}", "log.dirs": folders}
                kafka.settings.update(own)
            self.members[number] = Member(kafka, disks)
        self.voters = ",".join(
            f"{number}@{at}:{uuid_to_text(bytes([number]) * 16)}" for number, at in controllers.items()
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(self.members[number].kafka.bootstrap for number in self.brokers)

    def start(self) -> None:
        """Format with Kafka's tool, and start Kafka's nodes."""
        for number, member in self.members.items():
            has_quorum = self.dynamic and number in self.controllers
            quorum = ("--initial-controllers", self.voters) if has_quorum else ()
            kafka = member.kafka
            kafka.directory.mkdir(parents=True)
            path = kafka.directory / "server.properties"
            properties = kafka.properties()
            if not self.dynamic:
                del properties["controller.quorum.bootstrap.servers"]
            path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
            tool(
                "storage",
                "format",
                "-t",
                CLUSTER_ID,
                "-c",
                str(path),
                *quorum,
                *self.format_options,
                release=self.release,
            )
        for member in self.members.values():
            member.kafka.launch()
        for member in self.members.values():
            member.kafka.wait_until_listening()

    def change(self, number: int, *, ours: bool, kill: bool = False) -> float:
        """End a node's program, start the other on its directory, and wait until all replicas are in sync. Returns the
        seconds that it took."""
        began = time.monotonic()
        self.members[number].stop(kill=kill)
        self.members[number].start(ours=ours)
        until(lambda: self.lagging() == [], f"replica in sync after node {number} changed: {self.lagging()}")
        return time.monotonic() - began

    def lagging(self) -> list[str]:
        """Partitions without all replicas in sync."""
        admin = AdminClient({**self.login, "bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            topics = admin.list_topics(timeout=10).topics
        except KafkaException as problem:
            return [str(problem)]
        return [
            f"{topic}-{number}: leader {partition.leader} of {partition.isrs}"
            for topic, found in topics.items()
            for number, partition in found.partitions.items()
            if len(partition.isrs) < self.replicas or partition.leader < 0
        ]

    def kill(self) -> None:
        for member in self.members.values():
            if member.is_ours and member.ours.runs:
                member.ours.kill()
            member.kafka.kill()


class Clients:
    """Producers and consumers of all kinds in threads, and what they were told."""

    def __init__(self, bootstrap: str, login: dict[str, str] | None = None) -> None:
        """`login` are librdkafka's settings of a user."""
        self.settings = {
            **(login or {}),
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }
        self.written = threading.Event()
        self.ended = threading.Event()
        self.problems: list[str] = []
        self.acknowledged: dict[str, set[int]] = defaultdict(set)
        self.aborted: set[int] = set()
        self.seen: dict[str, Counter[int]] = defaultdict(Counter)
        self.pauses: dict[str, float] = defaultdict(float)
        """The longest time between two results of each client, in seconds."""
        self.committed: dict[tuple[str, int], int] = {}
        self._last: dict[str, float] = {}
        self._writers: list[threading.Thread] = []
        self._readers: list[threading.Thread] = []

    def create_topics(self, replicas: int = 3) -> None:
        admin = AdminClient(self.settings)
        for future in admin.create_topics(
            [
                NewTopic(
                    topic,
                    PARTITIONS,
                    replicas,
                    config={"cleanup.policy": "compact", "segment.ms": "5000", "min.cleanable.dirty.ratio": "0.01"}
                    if topic == "compacted"
                    else {},
                )
                for topic in TOPICS
            ]
        ).values():
            future.result(SECONDS_MAX)
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, "share", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(SECONDS_MAX)

    def start(self) -> None:
        writers = [partial(self.produce, topic) for topic in TOPICS if topic != "transactional"]
        readers = [partial(self.consume, *name.split()) for name in GROUPS if name != "share"]
        for work in (*writers, self.transact):
            self._begin(work, self._writers)
        for work in (*readers, self.share):
            self._begin(work, self._readers)

    def _begin(self, work: Callable[[], None], threads: list[threading.Thread]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as problem:  # noqa: BLE001 - whatever ended the thread is a problem of the roll.
                self.problems.append(repr(problem))

        thread = threading.Thread(target=guarded)
        thread.start()
        threads.append(thread)

    def happened(self, what: str) -> None:
        now = time.monotonic()
        self.pauses[what] = max(self.pauses[what], now - self._last.get(what, now))
        self._last[what] = now

    def produce(self, topic: str) -> None:
        producer = Producer({**self.settings, "enable.idempotence": True, "linger.ms": 5})

        def told(problem: KafkaError | None, message: Any) -> None:
            if problem is not None:
                self.problems.append(f"{topic}: {problem}")
            else:
                self.acknowledged[topic].add(int(message.value()))
                self.happened(f"produce {topic}")

        number = 0
        while not self.written.wait(0.005):
            producer.produce(topic, b"%d" % number, key=b"%d" % (number % KEYS), on_delivery=told)
            producer.poll(0)
            number += 1
        assert producer.flush(SECONDS_MAX) == 0

    def transact(self) -> None:
        """Transactions of five records, each fifth aborted. A commit whose outcome is not told is asked for again."""
        producer = Producer({**self.settings, "transactional.id": "roll", "transaction.timeout.ms": 60_000})
        self.again(lambda: producer.init_transactions(30))
        number = 0
        while not self.written.wait(0.02):
            producer.begin_transaction()
            numbers = range(number, number + 5)
            number += 5
            for each in numbers:
                producer.produce("transactional", b"%d" % each, key=b"%d" % each)
            if number % 25 == 0:
                producer.flush(30)
                self.aborted.update(numbers)
                self.again(lambda: producer.abort_transaction(30))
                continue
            try:
                self.again(lambda: producer.commit_transaction(30))
            except KafkaException as problem:
                if not problem.args[0].txn_requires_abort():
                    raise
                self.problems.append(f"transaction: {problem}")
                self.aborted.update(numbers)
                self.again(lambda: producer.abort_transaction(30))
                continue
            self.acknowledged["transactional"].update(numbers)
            self.happened("transaction")

    def again(self, call: Callable[[], None]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                return call()
            except KafkaException as problem:
                if not problem.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def consume(self, protocol: str, topic: str) -> None:
        name = f"{protocol} {topic}"
        consumer = Consumer(
            {
                **self.settings,
                "group.id": name.replace(" ", "-"),
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([topic])
        while not self.ended.is_set():
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                self.problems.append(f"{name}: {message.error()}")
                continue
            self.seen[name][int(message.value())] += 1
            self.happened(f"consume {name}")
            if int(message.value()) % 20 == 0:
                self.commit(name, consumer, TopicPartition(topic, message.partition(), message.offset() + 1))
        consumer.close()

    def commit(self, name: str, consumer: Consumer, place: TopicPartition) -> None:
        """Commit. While the coordinator moves it is asked again, as Java's consumer does."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                consumer.commit(offsets=[place], asynchronous=False)
            except KafkaException as problem:
                if problem.args[0].code() not in COORDINATOR_MOVES or time.monotonic() > deadline:
                    self.problems.append(f"{name}: {problem}")
                    return
                time.sleep(0.05)
            else:
                self.committed[(name, place.partition)] = place.offset
                return

    def share(self) -> None:
        consumer = ShareConsumer({**self.settings, "group.id": "share"})
        consumer.subscribe(["queue"])
        while not self.ended.is_set():
            for message in consumer.poll(timeout=0.5):
                if message.error() is None:
                    self.seen["share"][int(message.value())] += 1
                    self.happened("share")
                else:
                    self.problems.append(f"share: {message.error()}")
        consumer.close()

    def stop(self) -> None:
        """Stop the producers, let the consumers read what there is, and stop them."""
        self.written.set()
        for thread in self._writers:
            thread.join(SECONDS_MAX)
        deadline = time.monotonic() + SECONDS_MAX
        while self.missed() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.ended.set()
        for thread in self._readers:
            thread.join(SECONDS_MAX)

    def missed(self) -> dict[str, int]:
        """How many acknowledged records each group has not read yet."""
        counts = {name: len(self.acknowledged[topic] - set(self.seen[name])) for name, topic in GROUPS.items()}
        return {name: count for name, count in counts.items() if count}

    def judge(self, directory: Path) -> None:
        """Compare what the cluster and the groups have with what the clients were told. `directory` has those of the
        nodes."""
        assert self.problems == []
        assert self.missed() == {}
        for topic in TOPICS:
            found = self.read_all(topic)
            told = self.acknowledged[topic]
            if topic == "compacted":
                latest = {number % KEYS: number for number in sorted(told)}
                told = set(latest.values())
            assert told - set(found) == set(), f"{topic}: acknowledged records are lost"
            twice = {number for number, count in found.items() if count > 1}
            assert twice - kafkas_copies(directory, topic, twice) == set(), f"{topic}: there twice"
        assert self.aborted
        assert self.aborted & set(self.read_all("transactional")) == set()
        assert self.aborted & set(self.seen["consumer transactional"]) == set()
        for name, topic in GROUPS.items():
            if name != "share":
                assert self.offsets_of(name, topic) == {
                    partition: offset for (group, partition), offset in self.committed.items() if group == name
                }

    def read_all(self, topic: str) -> Counter[int]:
        """Every committed record of a topic up to its end."""
        consumer = Consumer(
            {**self.settings, "group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        found: Counter[int] = Counter()
        ended: set[int] = set()
        deadline = time.monotonic() + SECONDS_MAX
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, (topic, ended)
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                found[int(message.value())] += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        consumer.close()
        return found

    def offsets_of(self, name: str, topic: str) -> dict[int, int]:
        consumer = Consumer({**self.settings, "group.id": name.replace(" ", "-")})
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        found = {each.partition: each.offset for each in consumer.committed(places, 30)}
        consumer.close()
        return found
