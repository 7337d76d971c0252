"""Values of one key, each written in a transaction that is committed or aborted, and what readers see of them."""

from __future__ import annotations

import time

from confluent_kafka import TopicPartition

from kraft.testing.foreign.librdkafka import Consumer, Producer

SECONDS_MAX = 60
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}


def write_transactions(bootstrap: str, topic: str, *transactions: tuple[bytes, bool]) -> None:
    """Value, and whether it is committed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"writes-{topic}"})
    producer.init_transactions(SECONDS_MAX)
    for value, commits in transactions:
        producer.begin_transaction()
        producer.produce(topic, value, b"k", partition=0)
        producer.flush(SECONDS_MAX)
        (producer.commit_transaction if commits else producer.abort_transaction)(SECONDS_MAX)


def read_all(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Up to the end of the topic's one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-alone",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    give_up = time.monotonic() + SECONDS_MAX
    try:
        while True:
            assert time.monotonic() < give_up, f"no end of {topic} behind {values}"
            message = consumer.poll(1.0)
            if message is not None and message.error() is not None:
                return values
            if message is not None:
                values.append(message.value() or b"")
    finally:
        consumer.close()
