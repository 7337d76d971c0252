"""The same two deeds - write these records, read this partition - by four clients that share no code with kraft (and
only two of them with each other).

Each writer is `write(bootstrap, topic, records, codec)` to partition 0, each reader `read(bootstrap, topic, count)`
from its start.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from tests.capabilities import require_capability

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_MAX = 30


class Record(NamedTuple):
    """What a client sees of a record. `timestamp` in ms; None: the client's own choice."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


class Seen(NamedTuple):
    offset: int
    record: Record


Write = Callable[[str, str, Sequence[Record], str], None]
Read = Callable[[str, str, int], list[Seen]]


def write_confluent(bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> None:
    failures: list[Any] = []

    def delivered(problem: Any, _: Any) -> None:
        if problem:
            failures.append(problem)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "compression.type": codec,
            "linger.ms": 20,
            "enable.idempotence": True,
        }
    )
    for record in records:
        options = {} if record.timestamp is None else {"timestamp": record.timestamp}
        producer.produce(
            topic, record.value, record.key, 0, headers=list(record.headers), on_delivery=delivered, **options
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert not failures


def read_confluent(bootstrap: str, topic: str, count: int) -> list[Seen]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "reads-alone",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen: list[Seen] = []
    while len(seen) < count:
        messages = consumer.consume(count - len(seen), timeout=SECONDS_MAX)
        assert messages, f"{len(seen)} of {count} records came"
        for message in messages:
            assert message.error() is None, message.error()
            record = Record(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])
            seen.append(Seen(message.offset(), record))
    consumer.close()
    return seen


def write_aiokafka(bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> None:
    async def write() -> None:
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20, enable_idempotence=True
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    partition=0,
                    timestamp_ms=record.timestamp,
                    headers=list(record.headers),
                )
                for record in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), SECONDS_MAX)
        finally:
            await producer.stop()

    asyncio.run(write())


def read_aiokafka(bootstrap: str, topic: str, count: int) -> list[Seen]:
    async def read() -> list[Seen]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
        await consumer.start()
        try:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            seen = []
            while len(seen) < count:
                message = await asyncio.wait_for(consumer.getone(), SECONDS_MAX)
                seen.append(
                    Seen(message.offset, Record(message.key, message.value, tuple(message.headers), message.timestamp))
                )
            return seen
        finally:
            await consumer.stop()

    return asyncio.run(read())


def write_kafka_python(bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> None:
    compression = None if codec == "none" else codec
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20, enable_idempotence=True
    )
    try:
        sent = [
            producer.send(
                topic,
                record.value,
                key=record.key,
                partition=0,
                timestamp_ms=record.timestamp,
                headers=list(record.headers),
            )
            for record in records
        ]
        for future in sent:
            future.get(SECONDS_MAX)
    finally:
        producer.close(timeout=SECONDS_MAX)


def read_kafka_python(bootstrap: str, topic: str, count: int) -> list[Seen]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True, consumer_timeout_ms=SECONDS_MAX * 1000
    )
    try:
        partition = PythonTopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        seen: list[Seen] = []
        for message in consumer:
            seen.append(
                Seen(message.offset, Record(message.key, message.value, tuple(message.headers), message.timestamp))
            )
            if len(seen) == count:
                break
        assert len(seen) == count
        return seen
    finally:
        consumer.close(autocommit=False)


def kcat(*arguments: str, stdin: str | None = None) -> str:
    """Run kcat to its end; what it printed."""
    require_capability("kcat")
    done = subprocess.run(
        ["kcat", *arguments], input=stdin, capture_output=True, text=True, timeout=SECONDS_MAX * 2, check=False
    )
    assert done.returncode == 0, f"kcat {' '.join(arguments)} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def write_kcat(bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> None:
    """kcat writes one set of headers a run, and no times of ours; an empty key or value stands for null (-Z)."""
    for headers in dict.fromkeys(record.headers for record in records):
        options = [option for name, value in headers for option in ("-H", f"{name}={(value or b'').decode()}")]
        lines = "".join(
            f"{(r.key or b'').decode()}|{(r.value or b'').decode()}\n" for r in records if r.headers == headers
        )
        kcat("-P", "-b", bootstrap, "-t", topic, "-p", "0", "-K", "|", "-Z", "-z", codec, *options, stdin=lines)


def read_kcat(bootstrap: str, topic: str, count: int) -> list[Seen]:
    printed = kcat("-C", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count), "-e", "-q", "-J")
    return [_seen(json.loads(line)) for line in printed.splitlines()]


def _seen(fields: dict[str, Any]) -> Seen:
    names_and_values = fields.get("headers", [])
    headers = tuple(
        (name, _bytes(value)) for name, value in zip(names_and_values[::2], names_and_values[1::2], strict=True)
    )
    return Seen(fields["offset"], Record(_bytes(fields["key"]), _bytes(fields["payload"]), headers, fields["ts"]))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


WRITERS: dict[str, Write] = {
    "confluent": write_confluent,
    "aiokafka": write_aiokafka,
    "kafka-python": write_kafka_python,
    "kcat": write_kcat,
}
READERS: dict[str, Read] = {
    "confluent": read_confluent,
    "aiokafka": read_aiokafka,
    "kafka-python": read_kafka_python,
    "kcat": read_kcat,
}
