"""The sinks: rows become records, at least once. A retried task or a replayed micro-batch writes its records again, as with the official connector.

Columns: `value` (string or binary, required), `key`, `topic` (or the option `topic`, which wins), `headers`, `partition`. A task ends when every
record it wrote is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kraft.spark.client_config import producer_config
from kraft.spark.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import KafkaError, Message, Producer
    from pyspark.sql.types import StructType

Setting = str | int | float | bool
FLUSH_WAIT_S = 1.0
UNASSIGNED = -1
HEADERS = "array<struct<key:string,value:binary>>"
ACCEPTED = {"key": ("string", "binary"), "value": ("string", "binary"), "topic": ("string",), "headers": (HEADERS,), "partition": ("int",)}
REFUSED = {"key.serializer": "keys", "value.serializer": "values"}


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task reports to the driver."""

    records: int


@dataclass(frozen=True)
class SinkOptions:
    """A checked sink. `topic` is the option, or None if the column says."""

    topic: str | None
    config: dict[str, Setting]
    columns: tuple[str, ...]


def sink_options(options: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Check options and columns. Raises ValueError in the official connector's wording."""
    given = {name.lower(): value for name, value in options.items()}
    kafka = {name[6:]: value for name, value in given.items() if name.startswith("kafka.")}
    for name, what in REFUSED.items():
        if name in kafka:
            raise ValueError(f"Kafka option '{name}' is not supported as {what} are serialized with ByteArraySerializer.")
    if "bootstrap.servers" not in kafka:
        raise ValueError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    topic = given["topic"].strip() if "topic" in given else None
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if topic is None and "topic" not in types:
        raise ValueError("topic option required when no 'topic' attribute is present. Use the topic option for setting a topic.")
    if "value" not in types:
        raise ValueError("Required attribute 'value' not found")
    for name, accepted in ACCEPTED.items():
        if name in types and types[name] not in accepted and not (name == "topic" and topic is not None):
            raise ValueError(f"{name} attribute unsupported type {types[name]}. {name} must be a(n) {' or '.join(accepted)}")
    return SinkOptions(topic, producer_config(kafka), tuple(schema.fieldNames()))


class ProducerPool:
    """One idle producer by configuration for each Python worker: thread-safe inside, used by one task at a time."""

    def __init__(self) -> None:
        self.producers: dict[tuple[tuple[str, Setting], ...], Producer] = {}

    def get(self, config: Mapping[str, Setting]) -> Producer:
        from confluent_kafka import Producer

        key = tuple(sorted(config.items()))
        if key not in self.producers:
            self.producers[key] = Producer(dict(config))
        return self.producers[key]

    def discard(self, config: Mapping[str, Setting]) -> None:
        """Forget a producer that failed; its queue goes with it."""
        producer = self.producers.pop(tuple(sorted(config.items())), None)
        if producer is not None:
            producer.purge()


POOL = ProducerPool()  # One per Python worker process, by intent: Spark offers no other place to keep a client between tasks.


class Failures:
    """The first delivery that failed."""

    def __init__(self) -> None:
        self.first: str | None = None

    def note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.first is None:
            self.first = f"record for topic {message.topic()} partition {message.partition()} was not written: {error.str()}"

    def check(self) -> None:
        if self.first is not None:
            raise RuntimeError(self.first)


def write_batches(sink: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Produce every row and wait for all acknowledgements. Raises RuntimeError for the first record that was refused."""
    producer, failures, count = POOL.get(sink.config), Failures(), 0
    try:
        for batch in batches:
            for topic, key, value, partition, headers in rows_of(sink, batch):
                if topic is None:
                    raise SourceError(
                        "KAFKA_NULL_TOPIC_IN_DATA",
                        "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default topic.",
                    )
                produce(producer, failures, topic, value, key, UNASSIGNED if partition is None else partition, headers)
            count += batch.num_rows
            producer.poll(0)
            failures.check()
        while producer.flush(FLUSH_WAIT_S):
            failures.check()
        failures.check()
    except BaseException:
        POOL.discard(sink.config)
        raise
    return Written(count)


def produce(producer: Producer, failures: Failures, topic: str, value: bytes, key: bytes, partition: int, headers: list[tuple[str, bytes]] | None) -> None:
    """Queue one record; a full queue waits for deliveries, which is the sink's back-pressure."""
    extra: dict[str, Any] = {"headers": headers} if headers else {}
    while True:
        try:
            producer.produce(topic, value, key, partition, on_delivery=failures.note, **extra)
            return
        except BufferError:
            producer.poll(0.1)
            failures.check()


def rows_of(sink: SinkOptions, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """(topic, key, value, partition, headers) of each row."""

    def column(name: str) -> Any:
        return batch.column(sink.columns.index(name)).to_pylist() if name in sink.columns else repeat(None, batch.num_rows)

    topics = repeat(sink.topic, batch.num_rows) if sink.topic is not None else column("topic")
    headers = (None if each is None else [(header["key"], header["value"]) for header in each] for each in column("headers"))
    return zip(topics, column("key"), column("value"), column("partition"), headers, strict=True)


class KafkaBatchWriter(DataSourceArrowWriter):
    """`df.write.format("kraft")`."""

    def __init__(self, sink: SinkOptions) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_batches(self.sink, iterator)


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("kraft")`."""

    def __init__(self, sink: SinkOptions) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_batches(self.sink, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: the tasks' records are acknowledged already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: what is written stays written, and the retried batch writes it again."""
