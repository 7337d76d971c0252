"""An idempotent producer of numbered records to a topic that may grow. Its rate is limited so that Spark keeps up."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kraft.testing.foreign.librdkafka import Producer
from kraft.testing.foreign.process import ForeignProcess

BURST = 10
PAUSE_SECONDS = 0.1
FLUSH_SECONDS_MAX = 120


class NumberedWriter:
    """Writes until its context ends. `sent` are the values that may be in the log, `acknowledged` the values that must
    be there. `ends` is the offset after the last acknowledged record of each partition. Only its own thread writes;
    `partitions` may be increased."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        config = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        self.producer = Producer(config, process=ForeignProcess())
        self.topic = topic
        self.partitions = partitions
        self.sent: list[str] = []
        self.acknowledged: list[str] = []
        self.ends: dict[int, int] = {}
        self.failed: list[str] = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.write)

    def write(self) -> None:
        number = 0
        while not self.stopped.is_set():
            for _ in range(BURST):
                value = f"record-{number}"
                try:
                    self.producer.produce(
                        self.topic, value.encode(), partition=number % self.partitions, on_delivery=self.told
                    )
                except BufferError:
                    break  # The queue of the client is full: it waits for the cluster.
                except KafkaException as problem:
                    if problem.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                        raise
                    break  # Just added: the client has not heard of it yet.
                self.sent.append(value)
                number += 1
            self.producer.poll(0)
            self.stopped.wait(PAUSE_SECONDS)

    def told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value().decode())
            partition, end = message.partition(), message.offset() + 1
            self.ends[partition] = max(end, self.ends.get(partition, 0))
        else:
            self.failed.append(str(error))

    def __enter__(self) -> NumberedWriter:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self.thread.join()
        self.producer.flush(FLUSH_SECONDS_MAX)
        self.producer.process.close()
