"""Ordinary Kafka clients (confluent-kafka): produce with progress, read everything, and a consumer group that stays
behind on purpose."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kraft._tools.demo.flights import Digest
from kraft._tools.demo.problem import DemoError

PROGRESS_STEP = 20_000
Progress = Callable[[int], None]


def produce(bootstrap: str, topic: str, records: Iterable[tuple[bytes, bytes]], progress: Progress) -> Digest:
    """Write every record with an idempotent producer, and wait for all acknowledgements. `progress` is called with the
    number of records sent. Returns the digest of the records."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4"}
    )
    digest, refused = Digest(), []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error.str())

    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        digest.add(key, value)
        if digest.count % PROGRESS_STEP == 0:
            producer.poll(0)
            progress(digest.count)
    left = producer.flush(60)
    if refused or left:
        raise DemoError(f"{len(refused)} records were refused and {left} not acknowledged: {refused[:1]}")
    progress(digest.count)
    return digest


def read_all(bootstrap: str, topic: str, partitions: int) -> Digest:
    """Read every record of the topic, from the beginning to the end of each partition, and return their digest."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo-reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    digest, ended, deadline = Digest(), 0, time.monotonic() + 60
    try:
        while ended < partitions:
            if time.monotonic() > deadline:
                raise DemoError(f"only {digest.count} records could be read in a minute")
            for message in consumer.consume(5000, 0.2):
                problem = message.error()
                if problem is None:
                    digest.add(message.key(), message.value())
                elif problem.code() == KafkaError._PARTITION_EOF:
                    ended += 1
                elif not problem.retriable():
                    raise KafkaException(problem)
    finally:
        consumer.close()
    return digest


def consume_some(bootstrap: str, topic: str, group: str, count: int) -> int:
    """Read about `count` records as a member of `group`, commit, and leave. Returns how many were read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    seen, deadline = 0, time.monotonic() + 60
    try:
        while seen < count:
            if time.monotonic() > deadline:
                raise DemoError(f"the group got only {seen} records in a minute")
            seen += sum(1 for message in consumer.consume(min(5000, count - seen), 0.5) if message.error() is None)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return seen
