"""Real processes that are killed at random moments.

What a client was told stays true: every acknowledged record is there, in order, an idempotent producer's exactly
once; topics that were created exist; groups go on from their commits; and Apache Kafka's dump-log finds nothing
wrong with the files.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.foreign.process import ForeignProcess, Hung
from kraft.testing.node_process import NodeFailed, NodeProcess
from tests.capabilities import require_capability
from tests.integration.kafka_tools import complaints, dump, printed

SOAK = os.environ.get("KRAFT_SOAK") == "1"
ROUNDS = 100 if SOAK else 15
SECONDS_MAX = 30
PARTITIONS = 3
SMALL = (
    "--set",
    "log.segment.bytes=1048576",
    "--set",
    "metadata.log.max.record.bytes.between.snapshots=20000",
    "--set",
    "group.initial.rebalance.delay.ms=0",
)


class Writer:
    """A producer that writes numbers, one partition after another, in a thread of its own, about a thousand a
    second. `acknowledged` is what it was told."""

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool, codec: str) -> None:
        self.topic = topic
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[Any] = []
        self.written = 0
        self._stopping = threading.Event()
        settings = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": "all",
            "enable.idempotence": idempotent,
            "compression.type": codec,
            "linger.ms": 2,
        }
        patience = {
            "message.timeout.ms": 300_000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "queue.buffering.max.messages": 2000,
        }
        self._producer = Producer({**settings, **patience}, process=ForeignProcess())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            value = b"%d " % self.written + bytes(self.written % 500)
            try:
                self._producer.produce(
                    self.topic, value, b"%d" % self.written, self.written % PARTITIONS, on_delivery=self._delivered
                )
                self.written += 1
            except BufferError:
                pass  # Its queue is full while the node is down.
            self._producer.poll(0.001)

    def _delivered(self, problem: Any, message: Any) -> None:
        if problem is None:
            self.acknowledged[message.partition(), message.offset()] = message.value()
        else:
            self.failures.append(problem)

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        self._producer.process.close()


class Committer:
    """A group that reads and commits. `committed` is what it was told last, `unanswered` what it asked for and had
    no good answer to: either may be in force.

    Librdkafka tries a commit again that a crash has cut off, perhaps after a later one was made: offsets may go
    back. Commits are asynchronous and the end is bounded: its synchronous commit was seen to wait for ever, without
    a request under way, when the coordinator restarts several times a second.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.group, self.topic = group, topic
        self.committed = [0] * PARTITIONS
        self.unanswered = [Counter[int]() for _ in range(PARTITIONS)]
        settings = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self._settings = settings | {
            "session.timeout.ms": 6000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "on_commit": self._told,
        }
        self._consumer = self._join()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _join(self) -> Consumer:
        consumer = Consumer(self._settings, process=ForeignProcess())
        consumer.subscribe([self.topic])
        return consumer

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step()
            except Hung:
                self._consumer = self._join()
        self._consumer.consume(1, timeout=1.0)  # Serves what came of the last commits.
        self._consumer.process.close()

    def _step(self) -> None:
        messages = [message for message in self._consumer.consume(500, timeout=0.05) if message.error() is None]
        positions = {message.partition(): message.offset() + 1 for message in messages}
        for partition, offset in positions.items():
            self.unanswered[partition][offset] += 1
        if positions:
            try:
                self._consumer.commit(
                    offsets=[TopicPartition(self.topic, *position) for position in positions.items()],
                    asynchronous=True,
                )
            except KafkaException:
                pass  # The group came together anew.

    def _told(self, problem: Any, partitions: list[TopicPartition]) -> None:
        for told in partitions if problem is None else ():
            if told.error is None and told.offset >= 0:
                self.committed[told.partition] = told.offset
                self.unanswered[told.partition][told.offset] -= 1

    def until_told(self) -> None:
        """Wait until some commit has succeeded: a group may need longer to come together than a node lives later."""
        deadline = time.monotonic() + SECONDS_MAX
        while not any(self.committed):
            assert time.monotonic() < deadline, "no commit has succeeded"
            time.sleep(0.05)

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join(SECONDS_MAX)


def create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})])[topic].result(SECONDS_MAX)


def crash_while_starting(node: NodeProcess, after_seconds: float) -> None:
    """Start it and kill it before, or just as, it serves."""

    def start() -> None:
        try:
            node.start()
        except NodeFailed:
            pass  # As intended.

    before = node.process
    starter = threading.Thread(target=start)
    starter.start()
    while node.process is before:
        time.sleep(0.001)
    time.sleep(after_seconds)
    assert node.process is not None
    node.process.kill()
    starter.join()
    node.kill()


def test_no_acknowledged_record_is_lost_over_many_crashes(tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # Shown when it fails; the moments are real time, so a seed narrows it down only.
    chance = random.Random(seed)
    with NodeProcess(tmp_path, *SMALL) as node:
        topics = {"once": (True, "lz4"), "at-least-once": (False, "none")}
        for topic in topics:
            create(node.bootstrap, topic, PARTITIONS)
        writers = {
            topic: Writer(node.bootstrap, topic, idempotent=idempotent, codec=codec)
            for topic, (idempotent, codec) in topics.items()
        }
        committer = Committer(node.bootstrap, "once", "group")
        committer.until_told()
        created = []
        for round_number in range(ROUNDS):
            create(node.bootstrap, f"round-{round_number}", 1)
            created.append(f"round-{round_number}")
            until_more_is_acknowledged(writers.values())  # So that there is something to lose.
            time.sleep(chance.uniform(0, 0.3))
            node.kill()
            if round_number % 3 == 2:
                crash_while_starting(node, chance.uniform(0.05, 0.5))
            node.start()
        until_more_is_acknowledged(writers.values())
        for writer in writers.values():
            writer.finish()
            assert not writer.failures
        committer.finish()
        check_commits(node.bootstrap, committer)
        assert set(created) <= set(
            AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0}).list_topics(timeout=SECONDS_MAX).topics
        )
        for topic, writer in writers.items():
            check_log(node.bootstrap, topic, writer, exactly_once=topics[topic][0])
        assert node.stop() == 0
    check_files(tmp_path / "data")


def until_more_is_acknowledged(writers: Collection[Writer]) -> None:
    """Each of them is told of another record."""
    before = {writer: len(writer.acknowledged) for writer in writers}
    deadline = time.monotonic() + SECONDS_MAX
    while any(len(writer.acknowledged) == count for writer, count in before.items()):
        assert time.monotonic() < deadline, "writers go on after a restart"
        time.sleep(0.005)


def read_all(bootstrap: str, topic: str, partition: int) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "checks",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=SECONDS_MAX)
    assert low == 0
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple[int, bytes]] = []
    while len(found) < high:
        messages = consumer.consume(min(10_000, high - len(found)), timeout=SECONDS_MAX)
        assert messages, f"{len(found)} of {high} records came"
        found += [(message.offset(), message.value()) for message in messages if message.error() is None]
    consumer.close()
    return found


def check_log(bootstrap: str, topic: str, writer: Writer, *, exactly_once: bool) -> None:
    for partition in range(PARTITIONS):
        found = read_all(bootstrap, topic, partition)
        assert [offset for offset, _ in found] == list(range(len(found)))
        values = dict(found)
        for (where, offset), value in writer.acknowledged.items():
            assert where != partition or values[offset] == value, f"{topic}-{partition}: acknowledged at {offset}"
        numbers = [int(value.split(b" ")[0]) for _, value in found]
        expected = list(range(partition, writer.written, PARTITIONS))
        if exactly_once:
            assert numbers == expected
        else:
            assert sorted(set(numbers)) == expected


def check_commits(bootstrap: str, committer: Committer) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, "group.id": committer.group})
    found = consumer.committed(
        [TopicPartition(committer.topic, partition) for partition in range(PARTITIONS)], timeout=SECONDS_MAX
    )
    consumer.close()
    assert sum(committer.committed) > 0
    for each in found:
        offset = max(0, each.offset)
        assert offset == committer.committed[each.partition] or committer.unanswered[each.partition][offset] > 0


def check_files(data: Path) -> None:
    logs = [
        path for path in sorted(data.glob("*/*.log")) if path.stat().st_size and not path.parent.name.startswith("__")
    ]
    others = [
        path
        for kind in ("index", "timeindex", "snapshot")
        for path in sorted(data.glob(f"*/*.{kind}"))
        if path.stat().st_size
    ]
    offsets = [path for path in sorted(data.glob("__consumer_offsets-*/*.log")) if path.stat().st_size]
    metadata = sorted((data / "__cluster_metadata-0").glob("*.log")) + sorted(
        (data / "__cluster_metadata-0").glob("*.checkpoint")
    )
    texts = printed(
        dump(logs, "--deep-iteration"),
        dump(others),
        dump(offsets, "--offsets-decoder", "--deep-iteration"),
        dump(metadata, "--cluster-metadata-decoder", "--deep-iteration"),
    )
    for text in texts:
        assert not complaints(text), complaints(text)[:5]
