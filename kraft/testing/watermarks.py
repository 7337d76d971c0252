"""The start and end of a partition, as its leader reports them to librdkafka."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

TRY_SECONDS = 3.0
PAUSE_SECONDS = 0.05


def watermarks(consumer: Consumer, topic: str, partition: int, seconds: float) -> tuple[int, int]:
    """Return the log start offset and the high watermark. Retries until the leader reports both; raises KafkaException
    after `seconds`.

    A leader that was just elected refuses the end with OFFSET_NOT_AVAILABLE until its high watermark is past all
    records that it took over (KIP-207). Java's client retries; librdkafka leaves that to its user.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TRY_SECONDS)
            if found is None or min(found) < 0:  # Its connection broke meanwhile.
                raise KafkaException(KafkaError(KafkaError._TRANSPORT, f"{topic}-{partition}: {found} are no offsets"))
        except KafkaException:
            if time.monotonic() >= deadline:
                raise
            time.sleep(PAUSE_SECONDS)
        else:
            start, end = found
            return start, end
