"""Where a partition begins and ends, as its leader tells librdkafka."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

TRY_SECONDS = 3.0
PAUSE_SECONDS = 0.05


def watermarks(consumer: Consumer, topic: str, partition: int, seconds: float) -> tuple[int, int]:
    """Log start and high watermark, asked for until the leader tells both; at most for `seconds`, then raises
    KafkaException.

    A leader that was just elected refuses the end with OFFSET_NOT_AVAILABLE until its high watermark is past all
    that it took over (KIP-207). Java's client asks again; librdkafka leaves that to its user.
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
