"""Dead letters of share groups, rejected by librdkafka's share consumer and read by its plain one (KIP-1191)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from kraft.testing.foreign.librdkafka import Consumer, Producer
from kraft.testing.node_process import NodeProcess

KRAFT = [sys.executable, "-m", "kraft.cli.admin.app"]
JOBS = [b"good", b"bad", b"slow"]
SECONDS_MAX = 60


def work(node: NodeProcess, attempts: dict[bytes, int]) -> None:
    """Accept the good record, reject the bad one, and release the slow one until it is not delivered any more."""
    consumer = ShareConsumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "workers", "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe(["jobs"])
    answers = {
        b"good": AcknowledgeType.ACCEPT,
        b"bad": AcknowledgeType.REJECT,
        b"slow": AcknowledgeType.RELEASE,
    }
    deadline = time.monotonic() + SECONDS_MAX
    while attempts != {b"good": 1, b"bad": 1, b"slow": 2}:
        assert time.monotonic() < deadline, attempts
        for message in consumer.poll(timeout=0.5) or []:
            assert message.error() is None, message.error()
            attempts[message.value()] = attempts.get(message.value(), 0) + 1
            consumer.acknowledge(message, answers[message.value()])
        consumer.commit_sync()
    consumer.close()


def read(node: NodeProcess, topic: str, count: int) -> list[tuple[bytes | None, bytes | None, dict[str, bytes]]]:
    """Key, value and headers of the records of a topic, in the order of their offsets in the source."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count:
        assert time.monotonic() < deadline, found
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append((message.key(), message.value(), dict(message.headers())))
    assert consumer.poll(2.0) is None, "no letter is written twice"
    consumer.close()
    return sorted(found, key=lambda each: int(each[2]["__dlq.errors.offset"]))


@pytest.mark.timeout(150)
def test_rejected_records_and_those_delivered_too_often_are_read_from_the_dead_letter_topic(tmp_path: Path) -> None:
    settings = ("--set", "errors.deadletterqueue.auto.create.topics.enable=true")
    with NodeProcess(tmp_path / "node", *settings) as node:

        def kraft(*words: str) -> None:
            subprocess.run([*KRAFT, *words, "-b", node.bootstrap], check=True, capture_output=True, timeout=60)

        kraft("features", "upgrade", "share.version=2")
        kraft("topics", "create", "jobs", "-p", "1")
        for setting in (
            "share.auto.offset.reset=earliest",
            "share.delivery.count.limit=2",
            "errors.deadletterqueue.topic.name=dlq.workers",
            "errors.deadletterqueue.copy.record.enable=true",
        ):
            kraft("configs", "set", "group", "workers", setting)
        producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
        for job in JOBS:
            producer.produce("jobs", job, key=b"key of " + job)
        assert producer.flush(30) == 0
        work(node, {})
        letters = read(node, "dlq.workers", 2)
    assert [(key, value) for key, value, _ in letters] == [(b"key of bad", b"bad"), (b"key of slow", b"slow")]
    common = {"__dlq.errors.topic": b"jobs", "__dlq.errors.partition": b"0", "__dlq.errors.group": b"workers"}
    assert [headers for *_, headers in letters] == [
        {
            **common,
            "__dlq.errors.offset": b"1",
            "__dlq.errors.delivery.count": b"1",
            "__dlq.errors.message": b"Offset rejected by client.",
        },
        {
            **common,
            "__dlq.errors.offset": b"2",
            "__dlq.errors.delivery.count": b"2",
            "__dlq.errors.message": b"Offset delivery count exceeded the threshold.",
        },
    ]
