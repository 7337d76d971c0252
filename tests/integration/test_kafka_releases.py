"""A node of ours starts on the directory that a release of Apache Kafka wrote: its records, its groups' offsets and its
configurations are there, and it goes on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from jepsen.java.kafka import BEFORE, REFERENCE, ApacheKafka
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.integration.rolling_clients import COORDINATOR_MOVES

SECONDS_MAX = 60.0
KAFKA_SECONDS_MAX = 180.0
"""Of a start of Kafka on a busy machine."""
RELEASES = {
    "3.9.2": "kafka_release:3.9.2",
    "4.0.2": "kafka_release:4.0.2",
    "4.1.2": "kafka_release:4.1.2",
    "4.2.2": "kafka_release:4.2.2",
    "4.3.1": BEFORE,
    "4.4.0": REFERENCE,
}
ALWAYS = ("4.3.1", "4.4.0")
"""The releases of `make test`; the others are run by `make soak`."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = ("plain", "idempotent", "transactional", "compacted", *(f"in-{codec}" for codec in CODECS))
COUNT = 300
PARTITIONS = 2
KEYS = 7
GROUP = "readers"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "500",
}
UNREAD = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
"""Without an authorizer they mean nothing to Kafka, and are found in many files."""


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"no {what} within {SECONDS_MAX} s"
        time.sleep(0.1)


class Client:
    """What is written to a node and read from it."""

    def __init__(self, bootstrap: str) -> None:
        self.settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.admin = AdminClient(self.settings)

    def create_topics(self) -> None:
        config = {
            "compacted": {
                "cleanup.policy": "compact",
                "segment.ms": "1000",
                "min.cleanable.dirty.ratio": "0.01",
                "delete.retention.ms": "86400000",
            },
            "plain": {"retention.ms": "123456789"},
        }
        made = [NewTopic(topic, PARTITIONS, 1, config=config.get(topic, {})) for topic in TOPICS]
        for future in self.admin.create_topics(made).values():
            future.result(SECONDS_MAX)

    def configure(self) -> None:
        """Set a dynamic key of the broker and one of a topic."""
        for kind, name, key, value in (
            (ResourceType.BROKER, "1", "log.cleaner.threads", "2"),
            (ResourceType.TOPIC, "idempotent", "max.message.bytes", "2000000"),
        ):
            entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(kind, name, incremental_configs=[entry])
            for future in self.admin.incremental_alter_configs([resource]).values():
                future.result(SECONDS_MAX)

    def configured(self) -> dict[str, str]:
        wanted = {
            "log.cleaner.threads": ConfigResource(ResourceType.BROKER, "1"),
            "max.message.bytes": ConfigResource(ResourceType.TOPIC, "idempotent"),
            "retention.ms": ConfigResource(ResourceType.TOPIC, "plain"),
            "cleanup.policy": ConfigResource(ResourceType.TOPIC, "compacted"),
        }
        return {
            key: next(iter(self.admin.describe_configs([resource]).values())).result(SECONDS_MAX)[key].value
            for key, resource in wanted.items()
        }

    def write(self, topic: str, first: int, **settings: Any) -> None:
        producer = Producer({**self.settings, "linger.ms": 20, **settings})
        for number in range(first, first + COUNT):
            producer.produce(topic, b"%d" % number, key=b"%d" % (number % KEYS), partition=number % PARTITIONS)
        assert producer.flush(SECONDS_MAX) == 0

    def write_all(self, first: int) -> None:
        """The numbers from `first` to each topic; those of an aborted transaction are negative."""
        self.write("plain", first, acks=1)
        self.write("idempotent", first, **{"enable.idempotence": True})
        self.write("compacted", first)
        for codec in CODECS:
            self.write(f"in-{codec}", first, **{"compression.type": codec})
        producer = Producer({**self.settings, "transactional.id": "writer"})
        producer.init_transactions(SECONDS_MAX)
        for part in range(3):
            aborted = part == 1
            producer.begin_transaction()
            for number in range(first + part * COUNT // 3, first + (part + 1) * COUNT // 3):
                value = -number - 1 if aborted else number
                producer.produce("transactional", b"%d" % value, partition=number % PARTITIONS)
            producer.flush(SECONDS_MAX)
            if aborted:
                producer.abort_transaction(SECONDS_MAX)
            else:
                producer.commit_transaction(SECONDS_MAX)

    def read(self, topic: str) -> Counter[int]:
        """Every committed record up to the end."""
        settings = {"group.id": "all", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer({**self.settings, **settings})
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
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
        consumer.close()
        return found

    def commit(self, offset: int) -> None:
        """Commit. While the coordinator loads it is asked again, as Java's consumer does."""
        consumer = Consumer({**self.settings, "group.id": GROUP})
        places = [TopicPartition("plain", number, offset + number) for number in range(PARTITIONS)]

        def is_done() -> bool:
            try:
                consumer.commit(offsets=places, asynchronous=False)
            except KafkaException as problem:
                if problem.args[0].code() not in COORDINATOR_MOVES:
                    raise
                return False
            return True

        until(is_done, "commit")
        consumer.close()

    def committed(self) -> list[int]:
        consumer = Consumer({**self.settings, "group.id": GROUP})
        places = [TopicPartition("plain", number) for number in range(PARTITIONS)]
        found = [each.offset for each in consumer.committed(places, SECONDS_MAX)]
        consumer.close()
        return found


def judge(client: Client, rounds: int) -> None:
    """Compare what the node has with what was written in so many rounds."""
    written = {number for turn in range(rounds) for number in range(turn * COUNT, (turn + 1) * COUNT)}
    for topic in TOPICS:
        found = client.read(topic)
        assert [number for number, count in found.items() if count > 1] == [], f"{topic}: there twice"
        if topic == "compacted":
            # The partition follows from the number, not from the key: each partition has its last of each key.
            latest = {(number % KEYS, number % PARTITIONS): number for number in sorted(written)}
            assert set(latest.values()) <= set(found) <= written
        elif topic == "transactional":
            kept = {number for number in written if not COUNT // 3 <= number % COUNT < 2 * COUNT // 3}
            assert set(found) == kept
        else:
            assert set(found) == written, topic
    assert client.committed() == [rounds * 10, rounds * 10 + 1]
    assert client.configured() == {
        "log.cleaner.threads": "2",
        "max.message.bytes": "2000000",
        "retention.ms": "123456789",
        "cleanup.policy": "compact",
    }


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize(
    "release", [pytest.param(each, marks=() if each in ALWAYS else pytest.mark.soak) for each in RELEASES]
)
def test_a_node_starts_on_the_directory_of_a_release_of_kafka_and_goes_on(
    release: str, killed: bool, tmp_path: Path
) -> None:
    require_capability("java17")
    require_capability("mvn")
    kafka = ApacheKafka(tmp_path / "node", settings=SETTINGS | UNREAD, heap="-Xmx384M", release=RELEASES[release])
    ours = NodeProcess(
        kafka.directory,
        "--config",
        str(kafka.directory / "server.properties"),
        listen=None,
        controller_listen=None,
    )
    try:
        kafka.format()
        kafka.launch()
        kafka.wait_until_listening(KAFKA_SECONDS_MAX)
        client = Client(kafka.bootstrap)
        client.create_topics()
        client.configure()
        client.write_all(0)
        client.commit(10)
        until(lambda: (kafka.data_directory / "cleaner-offset-checkpoint").exists(), "compaction")
        if killed:
            kafka.kill()
        else:
            kafka.stop()
        with ours:
            judge(client, 1)
            client.write_all(COUNT)
            client.commit(20)
            judge(client, 2)
            assert ours.stop() == 0
        log = ours.log_path.read_text(encoding="utf-8")
        assert [log.count(f"{name} has no effect without an authorizer") for name in UNREAD] == [1, 1]
    finally:
        kafka.kill()
