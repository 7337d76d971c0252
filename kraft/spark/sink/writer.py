"""The sinks. A stream writes each micro-batch exactly once: its tasks pass their rows to the driver, which writes them
in one transaction (`batch_commit.py`). A batch write, or a stream with `exactlyOnce` false, writes at least once, as
the official connector does: a retried task or a replayed micro-batch writes its records again. Kraft's own producer
sends the batches (`at_least_once_writer.py`), unless an option needs librdkafka.

Columns: `value` (string or binary, required), `key`, `topic` (the option `topic` takes precedence), `headers`,
`partition`, and `timestamp` with the option `keepTimestamp`. A task that writes at least once ends when every record it
wrote is acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kraft.spark.client.worker_heap import freeze_imports
from kraft.spark.client.worker_socket import ForWorkers
from kraft.spark.errors import not_continuous, not_written, null_topic
from kraft.spark.sink.sink_options import Setting, SinkOptions
from kraft.spark.worker_traceback import hide_traceback

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import KafkaError, Message, Producer

    from kraft.spark.sink.batch_commit import BatchOrigin, SinkIdentity
    from kraft.spark.sink.prepared_transactions import PreparedTransaction
    from kraft.spark.sink.staged_batch import StagedBatch

FLUSH_WAIT_S = 1.0
UNASSIGNED = -1
QUERY_ID, BATCH_ID, RUN_ID = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
"""Local properties that Spark sets while a micro-batch runs, also within foreachBatch."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result that one task reports to the driver."""

    records: int
    origin: BatchOrigin | None = None
    parcels: tuple[StagedBatch, ...] = ()
    """The rows for the driver to write, with exactly-once."""
    prepared: PreparedTransaction | None = None
    """Instead of them, the open transaction that has all rows of the task."""


class ProducerPool:
    """One idle producer per configuration for each Python worker. It is thread-safe inside, and used by one task at a
    time."""

    def __init__(self) -> None:
        self.producers: dict[tuple[tuple[str, Setting], ...], Producer] = {}

    def get(self, config: Mapping[str, Setting]) -> Producer:
        from confluent_kafka import Producer

        key = tuple(sorted(config.items()))
        if key not in self.producers:
            self.producers[key] = Producer(dict(config))
        return self.producers[key]

    def discard(self, config: Mapping[str, Setting]) -> None:
        """Drop a producer that failed, and purge its queue."""
        producer = self.producers.pop(tuple(sorted(config.items())), None)
        if producer is not None:
            producer.purge()


# One per Python worker process, by intent: Spark offers no other place to keep a client between tasks.
POOL = ProducerPool()


class Failures:
    """Remembers the first failed delivery."""

    def __init__(self) -> None:
        self.first: str | None = None

    def note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.first is None:
            self.first = (
                f"record for topic {message.topic()} partition {message.partition()} was not written: {error.str()}"
            )

    def check(self) -> None:
        if self.first is not None:
            raise not_written(self.first)


def write_librdkafka(sink: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Produce every row and wait for all acknowledgements. Raises SourceError for the first rejected record."""
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
    """Queue one record. If the queue is full, wait for deliveries: this is the sink's back-pressure."""
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
    """Yield (topic, key, value, partition, headers, timestamp in ms or None) for each row."""

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
    """Yield the timestamps in milliseconds, or None for each row if the sink does not keep timestamps."""
    if not sink.keep_timestamp:
        return repeat(None, batch.num_rows)
    import pyarrow as pa

    microseconds = batch.column(sink.columns.index("timestamp")).cast(pa.int64()).to_pylist()
    return (None if each is None else each // 1000 for each in microseconds)


def require_writable(sink: SinkOptions) -> None:
    """Check on the driver, before any task runs, that the sink can write. Raises ValueError if the cluster does not
    serve transactions, SourceError without write permission, WireError, OSError."""
    from kraft.security.acls import Operation
    from kraft.spark.client.wire import POOL as WIRES
    from kraft.spark.errors import no_transactions
    from kraft.spark.sink.sink_transaction import missing_api
    from kraft.spark.source.permissions import require_right

    if sink.exactly_once:
        missing = missing_api(WIRES.get(sink.bootstrap, security=sink.security))
        if missing is not None:
            raise no_transactions(missing)
    if sink.is_login_known and sink.topic is not None:
        require_right(sink.bootstrap, sink.security, (sink.topic,), Operation.WRITE)


def write_once(sink: SinkOptions, batches: Iterator[pa.RecordBatch], driver_files: str | None) -> Written:
    """Pass every row of one task of a micro-batch to the driver, or write them in a transaction that the driver ends.
    No row can be read as committed yet. `driver_files`: the local directory of the driver's JVM."""
    from kraft.spark.client.wire import POOL as WIRES
    from kraft.spark.sink.exactly_once_writer import OnceWriter
    from kraft.spark.sink.incoming_columns import incoming
    from kraft.spark.sink.local_staging import LocalStaging, local_directory
    from kraft.spark.sink.staging import Staging
    from kraft.spark.sink.task_transaction import open_task_transaction

    origin, task = origin_of_task()
    cluster, count = WIRES.get(sink.bootstrap, security=sink.security), 0
    identity = identity_of(sink, origin)
    topic = Staging(cluster, identity.staging_topic)
    staging: Staging | LocalStaging = topic
    if driver_files is not None and driver_files == local_directory():
        staging = LocalStaging(driver_files, identity.transactional_id, origin.batch, topic)
    writer = OnceWriter(
        cluster,
        origin.batch,
        task,
        sink.codec,
        staging,
        lambda: (
            open_task_transaction(cluster, identity.transactional_id, origin.run, origin.batch, sink.transaction_ms)
            if sink.task_transactions
            else None
        ),
    )
    try:
        for batch in batches:
            writer.write(incoming(sink, batch, time.time_ns() // 1_000_000))
            count += batch.num_rows
        parcels = writer.finish()
        return Written(count, origin, parcels, writer.prepared)
    except BaseException:
        writer.abandon()
        WIRES.discard([cluster])
        raise


def commit_once(sink: SinkOptions, messages: Iterable[WriterCommitMessage | None], *, once_a_run: bool) -> None:
    """Commit all rows of the micro-batch. Runs on the driver after every task has ended. Raises SourceError, WireError,
    OSError."""
    from kraft.spark.client.wire import POOL as WIRES
    from kraft.spark.sink.batch_commit import BatchContent, CommitRules, commit_batch

    written = [each for each in messages if isinstance(each, Written)]
    if not written or written[0].origin is None:
        return
    origin = written[0].origin
    content = BatchContent(
        sum(each.records for each in written),
        tuple(parcel for each in written for parcel in each.parcels),
        tuple(each.prepared for each in written if each.prepared is not None),
    )
    cluster = WIRES.get(sink.bootstrap, security=sink.security)
    rules = CommitRules(sink.transaction_ms, sink.on_difference, once_a_run)
    try:
        commit_batch(cluster, identity_of(sink, origin), origin, content, rules)
    except BaseException:
        WIRES.discard([cluster])
        raise


def identity_of(sink: SinkOptions, origin: BatchOrigin) -> SinkIdentity:
    from kraft.spark.sink.batch_commit import SinkIdentity

    return SinkIdentity(origin.query, sink.topic, sink.once_id)


def origin_of_task() -> tuple[BatchOrigin, int]:
    """Return the micro-batch of this task, and the task's number. Raises ValueError outside a streaming query, where
    batches have no number."""
    from pyspark import TaskContext

    from kraft.spark.sink.batch_commit import BatchOrigin

    context = TaskContext.get()
    query, batch, run = (
        (context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID, RUN_ID))
        if context is not None
        else (None, None, None)
    )
    if context is None or query is None or batch is None:
        raise ValueError(
            "exactlyOnce is only possible within a streaming query: other writes have no batch id. Set "
            "exactlyOnce to false."
        )
    return BatchOrigin(query, int(batch), run or ""), context.partitionId()


def write_least(sink: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Send every row and wait for all acknowledgements. Raises SourceError for a row without a topic, ValueError for a
    row whose partition does not exist, WireError, OSError."""
    from pyspark import TaskContext

    from kraft.spark.client.wire import POOL as WIRES
    from kraft.spark.sink.at_least_once_writer import POOL as SENDERS
    from kraft.spark.sink.at_least_once_writer import LeastWriter
    from kraft.spark.sink.incoming_columns import incoming

    context, count = TaskContext.get(), 0
    cluster = WIRES.get(sink.bootstrap, sink.client_id, sink.security)
    try:
        writer = LeastWriter(cluster, 0 if context is None else context.partitionId(), sink.codec)
        for batch in batches:
            writer.write(incoming(sink, batch, time.time_ns() // 1_000_000))
            count += batch.num_rows
        writer.finish()
        return Written(count)
    except BaseException:
        SENDERS.discard(cluster)
        WIRES.discard([cluster])
        raise


def write_task(sink: SinkOptions, batches: Iterator[pa.RecordBatch], driver_files: str | None) -> Written:
    """Write all rows of one task, exactly once or at least once, as the options say."""
    if sink.exactly_once:
        written = write_once(sink, batches, driver_files)
    else:
        written = (write_least if sink.is_built_in else write_librdkafka)(sink, batches)
    freeze_imports()
    return written


class KafkaBatchWriter(ForWorkers, DataSourceArrowWriter):
    """The writer of `df.write.format("kraft")`. With `exactlyOnce` it is used within foreachBatch, and writes like a
    stream."""

    def __init__(self, sink: SinkOptions) -> None:
        from kraft.spark.sink.local_staging import local_directory

        self.sink = sink
        self.driver_files = local_directory()
        require_writable(sink)
        freeze_imports()

    @hide_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self.sink, iterator, self.driver_files)

    @hide_traceback()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the rows of all tasks. Raises SourceError, WireError, OSError."""
        commit_once(self.sink, messages, once_a_run=True)
        freeze_imports()


class KafkaStreamWriter(ForWorkers, DataSourceStreamArrowWriter):
    """The writer of `df.writeStream.format("kraft")`. On the driver, Spark creates one for each micro-batch, and
    another to commit it."""

    def __init__(self, sink: SinkOptions) -> None:
        from kraft.spark.sink.local_staging import local_directory

        self.sink = sink
        self.driver_files = local_directory()
        require_writable(sink)
        freeze_imports()

    @hide_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self.sink, iterator, self.driver_files)

    @hide_traceback()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the micro-batch. Raises SourceError, WireError, OSError.

        In continuous mode Spark's JVM passes no rows to Python, and no task returns a message. Spark then logs the
        error and commits no further epoch.
        """
        if None in messages:
            raise not_continuous()
        commit_once(self.sink, messages, once_a_run=False)
        freeze_imports()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: no transaction is open while tasks run. Staged rows are deleted with the next commit."""
