"""Clients of every kind that work while the nodes of a cluster are replaced, and a record of what they were told."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
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

from tests.integration.kafka_refusals import kafkas_copies
from tests.integration.rolling_kafka import SECONDS_MAX

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


class Clients:
    """Producers and consumers of all kinds in threads, and what they were told."""

    def __init__(self, bootstrap: str, login: dict[str, str] | None = None, consumer_debug: str = "") -> None:
        """`login` are librdkafka's settings of a user. `consumer_debug` are the contexts that consumers of groups log
        to stderr, each line with the client's name."""
        self.settings = {
            **(login or {}),
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }
        self.logging = {"debug": consumer_debug, "log_level": 7} if consumer_debug else {}
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
            self.begin(work, self._writers)
        for work in (*readers, self.share):
            self.begin(work, self._readers)

    def begin(self, work: Callable[[], None], threads: list[threading.Thread]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as problem:  # noqa: BLE001 - whatever ended the thread is a problem of the roll.
                self.problems.append(repr(problem))

        thread = threading.Thread(target=guarded, daemon=True)  # One that is stuck does not keep the process.
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
                **self.logging,
                "client.id": name.replace(" ", "-"),
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

    def stop(self, seconds: float = SECONDS_MAX) -> None:
        """Stop the producers, let the consumers read what there is, and stop them. Each of the three has `seconds`. A
        client that has not ended then is a problem, with the stack of its thread."""
        self.written.set()
        self._join(self._writers, seconds)
        deadline = time.monotonic() + seconds
        while self.missed() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.ended.set()
        self._join(self._readers, seconds)

    def _join(self, threads: list[threading.Thread], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        stacks = sys._current_frames()
        for thread in threads:
            if thread.is_alive() and thread.ident in stacks:
                stack = "".join(traceback.format_stack(stacks[thread.ident]))
                self.problems.append(f"a client has not ended {seconds:g} s after it was told to:\n{stack}")

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
