"""Read the records of a topic with an ordinary client."""

from __future__ import annotations

from confluent_kafka import KafkaError, TopicPartition

from kraft.testing.foreign.librdkafka import Consumer
from kraft.testing.foreign.values import Received


def read_to_the_end(bootstrap: str, topic: str) -> list[Received]:
    """Return every record of every partition, in order within each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        messages, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(30)
            assert message is not None, f"nothing more from {topic} after {len(messages)} records"
            problem = message.error()
            if problem is None:
                messages.append(message)
            else:
                assert problem.code() == KafkaError._PARTITION_EOF, problem
                ended += 1
        return messages
    finally:
        consumer.close()
