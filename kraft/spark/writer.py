"""The sinks: rows become records. A stream writes each micro-batch exactly once (`exactly_once.py`); a batch write,
or a stream with `exactlyOnce` false, writes at least once, as the official connector does: a retried task or a
replayed micro-batch writes its records again.

Columns: `value` (string or binary, required), `key`, `topic` (or the option `topic`, which wins), `headers`,
`partition`, and with the option `keepTimestamp` `timestamp`. A task ends when every record it wrote is acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kraft.spark.batch_identity import BatchIdentity
from kraft.spark.errors import null_topic
from kraft.spark.sink_options import Setting, SinkOptions
from kraft.spark.worker_heap import freeze_imports
from kraft.spark.worker_socket import ForWorkers

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import KafkaError, Message, Producer

    from kraft.spark.batch_begun import BatchBegun
    from kraft.spark.wire import WireCluster

FLUSH_WAIT_S = 1.0
UNASSIGNED = -1
LOOK_SECONDS_MAX = 60.0
"""So long the driver waits for leaders to say where a topic ends."""
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties that Spark sets while a micro-batch runs, also within foreachBatch."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task reports to the driver."""

    records: int
    ends: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, offset behind the last record), where the sink knows."""


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


# One per Python worker process, by intent: Spark offers no other place to keep a client between tasks.
POOL = ProducerPool()


class Failures:
    """The first delivery that failed."""

    def __init__(self) -> None:
        self.first: str | None = None

    def note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.first is None:
            self.first = (
                f"record for topic {message.topic()} partition {message.partition()} was not written: {error.str()}"
            )

    def check(self) -> None:
        if self.first is not None:
            raise RuntimeError(self.first)


def write_batches(sink: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Produce every row and wait for all acknowledgements. Raises RuntimeError for the first record that was
    refused."""
    producer, failures, count = POOL.get(sink.config), Failures(), 0
    try:
        for batch in batches:
            for topic, key, value, partition, headers, timestamp in rows_of(sink, batch):
                if topic is None:
                    raise null_topic()
                produce(
                    producer,
                    failures,
                    topic,
                    value,
                    key,
                    UNASSIGNED if partition is None else partition,
                    headers,
                    timestamp,
                )
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


def produce(
    producer: Producer,
    failures: Failures,
    topic: str,
    value: bytes,
    key: bytes,
    partition: int,
    headers: list[tuple[str, bytes]] | None,
    timestamp: int | None,
) -> None:
    """Queue one record; a full queue waits for deliveries, which is the sink's back-pressure."""
    extra: dict[str, Any] = {"headers": headers} if headers else {}
    if timestamp is not None:
        extra["timestamp"] = timestamp
    while True:
        try:
            producer.produce(topic, value, key, partition, on_delivery=failures.note, **extra)
            return
        except BufferError:
            producer.poll(0.1)
            failures.check()


def rows_of(sink: SinkOptions, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """(topic, key, value, partition, headers, timestamp in ms or None) of each row."""

    def column(name: str) -> Any:
        return (
            batch.column(sink.columns.index(name)).to_pylist() if name in sink.columns else repeat(None, batch.num_rows)
        )

    topics = repeat(sink.topic, batch.num_rows) if sink.topic is not None else column("topic")
    headers = (
        None if each is None else [(header["key"], header["value"]) for header in each] for each in column("headers")
    )
    return zip(
        topics, column("key"), column("value"), column("partition"), headers, timestamps_of(sink, batch), strict=True
    )


def timestamps_of(sink: SinkOptions, batch: pa.RecordBatch) -> Iterator[int | None]:
    """Milliseconds, where the sink keeps timestamps."""
    if not sink.keep_timestamp:
        return repeat(None, batch.num_rows)
    import pyarrow as pa

    microseconds = batch.column(sink.columns.index("timestamp")).cast(pa.int64()).to_pylist()
    return (None if each is None else each // 1000 for each in microseconds)


def begin_batch(sink: SinkOptions) -> BatchBegun | None:
    """On the driver, before the tasks of a micro-batch run: where its one topic ends. None where the topics are not
    known before the rows are, or the checkpoint is not."""
    from kraft.spark.batch_begun import begun
    from kraft.spark.wire import POOL as WIRES

    if not sink.exactly_once or sink.topic is None or sink.checkpoint is None:
        return None
    topic, cluster = sink.topic, WIRES.get(sink.bootstrap, security=sink.security)
    try:
        return begun(sink.checkpoint, topic, sink.once_id, lambda: ends_of(cluster, topic))
    except BaseException:
        WIRES.discard([cluster])
        raise


def ends_of(cluster: WireCluster, topic: str) -> dict[int, int]:
    """Where the topic's partitions end; nothing if there is no such topic yet."""
    from kraft.spark.wire import UNKNOWN_TOPIC, WireError

    try:
        return cluster.ends(topic, time.monotonic() + LOOK_SECONDS_MAX)
    except WireError as problem:
        if problem.code not in UNKNOWN_TOPIC:
            raise
        return {}


def ends_before(begun: BatchBegun | None, identity: BatchIdentity) -> Mapping[int, int] | None:
    """From where a task has to look for what its earlier attempts wrote. None if there were none, or if nobody
    knows."""
    from pyspark import TaskContext

    context = TaskContext.get()
    is_first = begun is not None and begun.is_new and context is not None and context.attemptNumber() == 0
    return None if begun is None or begun.batch != identity.batch or is_first else begun.ends


def write_once(
    sink: SinkOptions, identity: BatchIdentity, batches: Iterator[pa.RecordBatch], begun: BatchBegun | None = None
) -> Written:
    """Write every row of one task of a micro-batch, unless an attempt before has."""
    from kraft.spark.once_writer import OnceWriter
    from kraft.spark.wire import POOL as WIRES

    cluster, count = WIRES.get(sink.bootstrap, security=sink.security), 0
    writer = OnceWriter(cluster, identity, sink.codec, ends_before(begun, identity), may_differ=sink.may_differ)
    try:
        for batch in batches:
            writer.write(list(rows_of(sink, batch)))
            count += batch.num_rows
        ends = writer.finish()
    except BaseException:
        WIRES.discard([cluster])
        raise
    return Written(count, ends)


def identity_of_task(sink: SinkOptions) -> BatchIdentity:
    """Who this task is. Raises RuntimeError outside a streaming query, where no batch has a number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query, batch = (
        (context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID)) if context is not None else (None, None)
    )
    if context is None or query is None or batch is None:
        raise RuntimeError(
            "exactlyOnce is only possible within a streaming query: what is written outside of one has no "
            "batch id. Set exactlyOnce to false."
        )
    return BatchIdentity(query, int(batch), context.partitionId(), sink.once_id)


def write_task(sink: SinkOptions, batches: Iterator[pa.RecordBatch], begun: BatchBegun | None = None) -> Written:
    """All rows of one task, once or at least once, as the options say."""
    if sink.exactly_once:
        written = write_once(sink, identity_of_task(sink), batches, begun)
    else:
        written = write_batches(sink, batches)
    freeze_imports()
    return written


class KafkaBatchWriter(ForWorkers, DataSourceArrowWriter):
    """`df.write.format("kraft")`."""

    def __init__(self, sink: SinkOptions) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self.sink, iterator)


class KafkaStreamWriter(ForWorkers, DataSourceStreamArrowWriter):
    """`df.writeStream.format("kraft")`. Spark makes one on the driver for each micro-batch."""

    def __init__(self, sink: SinkOptions) -> None:
        self.sink = sink
        self.begun = begin_batch(sink)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self.sink, iterator, self.begun)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: the tasks' records are acknowledged already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: what is written stays written, and the retried batch writes it again."""
