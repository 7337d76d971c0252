"""Reads one range of offsets as Arrow record batches, through librdkafka.

The range ends at a record at or past its end, or when librdkafka reports the end of the partition with its offset. The
report is needed because control, aborted and compacted records are never delivered, so the reader must not wait for
them. A fetch below the log start is refused by the broker: that is data loss. Gaps between records are never data loss.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kraft.spark.decode.rows import arrow_schema
from kraft.spark.errors import OffsetNotKnown, malformed_header_name, not_read
from kraft.spark.source.consumer_pool import POOL
from kraft.spark.source.ranges import OffsetRange
from kraft.spark.source.timestamps import check_timestamps

log = logging.getLogger(__name__)

BATCH_ROWS_MAX = 4000
BATCH_BYTES_AIM = 2 << 20
CONSUME_WAIT_S = 0.05
LOOKUP_TIMEOUT_S = 30.0
SETTLE_SECONDS = 20.0
"""How long a log must lack an offset, or a topic be unknown, to be believed. librdkafka reports no leader epochs, so
only the time can decide."""
RETRY_SECONDS = 1.0
OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION})
GONE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
    }
)


class PartitionFetcher:
    """Iterator over the rows of one range; iterate only once. `config` is the consumer's. Times are in ms."""

    def __init__(
        self,
        offsets: OffsetRange,
        config: Mapping[str, str],
        *,
        include_headers: bool,
        fail_on_data_loss: bool,
        poll_timeout_ms: int,
    ) -> None:
        self.offsets = offsets
        self.config = config
        self.include_headers = include_headers
        self.fail_on_data_loss = fail_on_data_loss
        self.poll_timeout_s = poll_timeout_ms / 1000
        self.settle_s = min(SETTLE_SECONDS, self.poll_timeout_s)
        # offsets.start <= position; every record below it is delivered or known not to exist
        self.position = offsets.start
        self.ended = False  # nothing can arrive any more below the end
        self.batch_rows = 500
        self.columns = BatchBuilder(offsets.topic, offsets.partition, include_headers)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self.offsets.size <= 0:
            return
        consumer = POOL.take(self.config)
        whole = False
        try:
            self.seek(consumer)
            yield from self.batches(consumer)
            whole = True
        except GeneratorExit:
            whole = True  # The reader wanted no more, say because of a limit.
            raise
        finally:
            if whole:
                POOL.give_back(self.config, consumer)
            else:
                consumer.close()

    def seek(self, consumer: Consumer) -> None:
        consumer.assign([TopicPartition(self.offsets.topic, self.offsets.partition, self.position)])

    def batches(self, consumer: Consumer) -> Iterator[pa.RecordBatch]:
        end = self.offsets.end
        progress = time.monotonic()
        while self.position < end:
            before = self.position
            messages = consumer.consume(min(self.batch_rows, end - before), CONSUME_WAIT_S)
            records = self.records_of(consumer, messages) if any(map(Message.error, messages)) else messages
            if records:
                yield from self.take(records)
            if self.ended:
                return
            if self.position > before:
                progress = time.monotonic()
            elif time.monotonic() - progress > self.poll_timeout_s:
                wanted = f"offset {self.position} of {self.offsets.topic_partition}"
                raise TimeoutError(f"Cannot fetch record for {wanted} in {self.poll_timeout_s * 1000:.0f} milliseconds")

    def take(self, records: list[Message]) -> Iterator[pa.RecordBatch]:
        """Yield the records below the range's end as one batch, and adapt the size of the next batch."""
        last_offset = offset_of(records[-1])
        if last_offset >= self.offsets.end:
            records = [record for record in records if offset_of(record) < self.offsets.end]
        self.position = max(self.position, min(last_offset + 1, self.offsets.end))
        if records:
            batch = self.columns.build(records)
            self.batch_rows = max(1, min(BATCH_ROWS_MAX, BATCH_BYTES_AIM * len(records) // max(1, batch.nbytes)))
            yield batch

    def records_of(self, consumer: Consumer, messages: Sequence[Message]) -> list[Message]:
        """Return the records among `messages`. Errors and end-of-partition events are handled in order; the records
        before an error are still delivered."""
        records = []
        for message in messages:
            problem = message.error()
            if problem is not None:
                self.handle_event(consumer, message, problem)
            elif offset_of(message) >= self.position:
                records.append(message)
                self.position = min(offset_of(message) + 1, self.offsets.end)
        return records

    def handle_event(self, consumer: Consumer, message: Message, problem: KafkaError) -> None:
        if problem.code() == KafkaError._PARTITION_EOF:
            self.at_partition_end(consumer, offset_of(message))
        elif problem.code() in OUT_OF_RANGE:
            self.out_of_range(consumer, problem)
        elif problem.code() in GONE:
            self.gone(consumer, problem)
        elif problem.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            log.debug("this user may not use the consumer group, which reading does not need: %s", problem.str())
        elif problem.fatal() or not problem.retriable():
            raise KafkaException(problem)
        else:
            log.warning("reading %s: %s", self.offsets.topic_partition, problem.str())

    def at_partition_end(self, consumer: Consumer, eof_offset: int) -> None:
        """Handle an end of partition at `eof_offset`. Below the range's end it is data loss, unless the leader has more
        records."""
        if eof_offset >= self.offsets.end:
            self.ended = True
            return
        self.position = max(self.position, eof_offset)
        earliest, latest = self.watermarks(consumer)
        if latest <= eof_offset:
            self.lose(eof_offset, self.offsets.end, f"the log now ends at {latest} (it starts at {earliest})")

    def out_of_range(self, consumer: Consumer, problem: KafkaError) -> None:
        """Handle an offset out of range: skip to the offsets that the broker has, if the options allow it."""
        if self.position >= self.offsets.end:
            return  # All has come.
        earliest, latest = self.watermarks(consumer)
        available = f"the broker holds [{earliest}, {latest})"
        if self.position < earliest < self.offsets.end:
            self.lose(self.position, earliest, available)
            self.position = earliest
            self.seek(consumer)
        elif earliest <= self.position < latest:
            log.warning(
                "offset %d of %s was temporarily out of range: %s",
                self.position,
                self.offsets.topic_partition,
                problem.str(),
            )
            self.seek(consumer)
        else:
            self.lose(self.position, self.offsets.end, available)

    def gone(self, consumer: Consumer, problem: KafkaError) -> None:
        """Handle an unknown partition. The partition is lost unless another node knows it: the response may come from a
        node that is behind."""

        def is_there() -> bool:
            found = consumer.list_topics(self.offsets.topic, LOOKUP_TIMEOUT_S).topics.get(self.offsets.topic)
            return found is not None and self.offsets.partition in found.partitions

        if self.patiently(is_there):
            log.warning("%s was temporarily unknown: %s", self.offsets.topic_partition, problem.str())
            self.seek(consumer)
        else:
            self.lose(self.position, self.offsets.end, f"{problem.str()}: the partition does not exist any more")

    def watermarks(self, consumer: Consumer) -> tuple[int, int]:
        """Return the log start and end from the leader, after a new look-up of the leader. A leader without the
        position may be behind, or not yet know that it was elected."""
        found = (0, 0)

        def is_readable() -> bool:
            nonlocal found
            consumer.list_topics(self.offsets.topic, LOOKUP_TIMEOUT_S)
            place = TopicPartition(self.offsets.topic, self.offsets.partition)
            # The binding gives None, and librdkafka -1001, for a connection that broke.
            told: tuple[int | None, int | None] | None = consumer.get_watermark_offsets(place, LOOKUP_TIMEOUT_S)
            low, high = told or (None, None)
            if low is None or high is None or min(low, high) < 0:
                what, wrong = ("first offset", low) if low is None or low < 0 else ("end offset", high)
                raise OffsetNotKnown(self.offsets.topic_partition, what, wrong)
            found = low, high
            return self.position < max(found)  # A log's start never goes back.

        self.patiently(is_readable)
        return found

    def patiently(self, look: Callable[[], bool]) -> bool:
        """Repeat `look` until it is true, or until a leader that is behind had time to catch up. Raises KafkaException
        or OffsetNotKnown if no broker answers in the end."""
        until = time.monotonic() + self.settle_s
        while True:
            try:
                if look():
                    return True
                if time.monotonic() >= until:
                    return False
            except (KafkaException, OffsetNotKnown) as problem:
                if time.monotonic() >= until:
                    raise
                log.warning("reading %s: %s", self.offsets.topic_partition, problem)
            time.sleep(RETRY_SECONDS)

    def lose(self, start: int, end: int, why: str) -> None:
        """Handle the loss of the offsets `[start, end)`: fail, or log a warning and continue at `end`."""
        loss = not_read(self.offsets.topic_partition, start, end, why)
        if self.fail_on_data_loss:
            raise loss
        log.warning("%s", loss)
        self.ended = end >= self.offsets.end


class BatchBuilder:
    """Converts records to Arrow columns. Columns with a constant value are built once and sliced."""

    def __init__(self, topic: str, partition: int, include_headers: bool) -> None:
        self.topic = topic
        self.partition = partition
        self.schema = arrow_schema(include_headers)
        self.include_headers = include_headers
        self.topics = pa.array([topic] * BATCH_ROWS_MAX, pa.string())
        self.partitions = pa.array(np.full(BATCH_ROWS_MAX, partition, np.int32))

    def build(self, records: Sequence[Message]) -> pa.RecordBatch:
        count = len(records)
        kinds, times = zip(*map(Message.timestamp, records), strict=True)
        milliseconds = np.fromiter(times, np.int64, count)
        check_timestamps(milliseconds, self.topic, self.partition, offset_of(records[0]))
        columns = [
            pa.array(list(map(Message.key, records)), pa.binary()),
            pa.array(list(map(Message.value, records)), pa.binary()),
            self.topics.slice(0, count),
            self.partitions.slice(0, count),
            pa.array(np.fromiter(map(Message.offset, records), np.int64, count)),
            pa.array(milliseconds * 1000, self.schema.field("timestamp").type),
            pa.array(np.fromiter(kinds, np.int32, count) - 1),
        ]
        if self.include_headers:
            columns.append(pa.array(list(map(headers_of, records)), self.schema.field("headers").type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def offset_of(message: Message) -> int:
    """Return the offset of a record or an end-of-partition event, which always have one."""
    offset = message.offset()
    assert offset is not None
    return offset


def headers_of(record: Message) -> list[dict[str, object]] | None:
    """Return a record's headers in order, with duplicates; None without headers, as in the official connector. Raises
    SourceError."""
    try:
        headers = record.headers()
    except SystemError as problem:  # How the binding gives out a UnicodeDecodeError.
        if not isinstance(problem.__cause__, UnicodeDecodeError):
            raise
        told = ", which librdkafka cannot return: set the option fetcher to direct, or includeHeaders to false"
        raise malformed_header_name(str(record.topic()), record.partition() or 0, offset_of(record), told) from problem
    return [dict(zip(("key", "value"), header, strict=True)) for header in headers] if headers else None
