"""Reads one range of offsets over a plain connection: Fetch, check, decode whole answers into Arrow. The fast way, for clusters without TLS and SASL.

The next Fetch is on its way while an answer is decoded. The range ends when the position reaches its end: a batch's header tells the offset behind it, so
control records and what compaction took leave no gap to wait for. What counts as loss is what it is for `PartitionFetcher`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.records.record import InvalidRecord
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.protocol.records.varint import read_varint
from kraft.spark.arrow_decoder import Columns, decode
from kraft.spark.errors import DataLoss, SourceError
from kraft.spark.ranges import OffsetRange
from kraft.spark.rows import arrow_schema
from kraft.spark.wire import POOL, RETRY_SECONDS, WireCluster, WireConnection, WireError

log = logging.getLogger(__name__)
FETCH_BYTES = 4 << 20
FETCH_SPARE_BYTES = 64 << 10
OFFSET_BYTES_FIRST = 200.0
"""What an offset is taken to need before any was read."""
FETCH_WAIT_MS = 100
ROWS_MAX = 20_000
LOOKUP_SECONDS_MAX = 30.0
GONE_SECONDS = 5.0
"""How long a topic must be unknown before it is believed to be gone: metadata may lag behind creation and fail-over."""
TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


class DirectFetcher:
    """One range, read once: iterate over it. Times are in ms."""

    def __init__(
        self, offsets: OffsetRange, bootstrap: str, *, include_headers: bool, fail_on_data_loss: bool, poll_timeout_ms: int, attempts_max: int, retry_ms: int
    ) -> None:
        self.offsets = offsets
        self.bootstrap = bootstrap
        self.include_headers = include_headers
        self.fail_on_data_loss = fail_on_data_loss
        self.poll_timeout_s = poll_timeout_ms / 1000
        self.attempts_max = attempts_max
        self.retry_s = retry_ms / 1000
        self.position = offsets.start  # offsets.start <= position; every record below it is delivered or known not to exist
        self.offset_bytes = OFFSET_BYTES_FIRST
        self.gone_since: float | None = None
        self.schema = arrow_schema(include_headers)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self.offsets.size <= 0:
            return
        cluster = POOL.get(self.bootstrap)
        whole = False
        try:
            yield from self.fetches(cluster)
            whole = True
        finally:
            if not whole:  # A Fetch may be under way.
                POOL.discard([cluster])

    def fetches(self, cluster: WireCluster) -> Iterator[pa.RecordBatch]:
        progress, before, connection = time.monotonic(), self.position, None
        while self.position < self.offsets.end:
            try:
                if connection is None:
                    connection = cluster.leader(self.offsets.topic, self.offsets.partition)
                    connection.send(self.request())
                answer = connection.receive().responses[0].partitions[0]
                first, found = self.position, self.accept(cluster, answer)
            except (OSError, WireError) as problem:
                self.failed(cluster, connection, problem)
                connection, first, found = None, self.position, []
            if found and self.position < self.offsets.end and connection is not None:
                connection.send(self.request())  # Comes while this answer is decoded.
            else:
                connection = None
            yield from self.rows(found, first)
            if self.position > before:
                progress, before, self.gone_since = time.monotonic(), self.position, None
            elif time.monotonic() - progress > self.poll_timeout_s:
                wanted = f"offset {self.position} of {self.offsets.topic_partition}"
                raise TimeoutError(f"Cannot fetch record for {wanted} in {self.poll_timeout_s * 1000:.0f} milliseconds")

    def request(self) -> FetchRequest:
        """For as many bytes as the rest of the range takes by what was seen so far, so that megabytes behind a short range stay where they are."""
        size = min(FETCH_BYTES, FETCH_SPARE_BYTES + int((self.offsets.end - self.position) * self.offset_bytes))
        wanted = FetchPartition(partition=self.offsets.partition, fetch_offset=self.position, partition_max_bytes=size)
        return FetchRequest(
            max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=size, topics=[FetchTopic(topic=self.offsets.topic, partitions=[wanted])]
        )

    def accept(self, cluster: WireCluster, answer: Any) -> list[RecordBatch]:
        """The batches of an answer; the position is behind them. Raises WireError for one that says no."""
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.out_of_range(cluster)
            return []
        if answer.error_code:
            raise WireError(answer.error_code, f"reading {self.offsets.topic_partition} at {self.position}")
        found = []
        for batch in batches(answer.records or b"", partial_tail=True):
            if batch.base_offset >= self.offsets.end:  # A broker sends whole chunks: what is behind the range is left alone.
                self.position = self.offsets.end
                break
            batch.verify_crc()
            found.append(batch)
        if found:
            self.position = max(self.position, min(found[-1].next_offset, self.offsets.end))
            self.offset_bytes = sum(batch.size for batch in found) / max(1, found[-1].next_offset - found[0].base_offset)
        elif self.position < self.offsets.end and answer.high_watermark < self.offsets.end and answer.high_watermark <= self.position:
            self.at_partition_end(cluster)
        return found

    def failed(self, cluster: WireCluster, connection: WireConnection | None, problem: OSError | WireError) -> None:
        """Look for the leader again. Raises what will not pass; a topic that stays away is loss."""
        if isinstance(problem, WireError):
            if not problem.is_retriable:
                raise problem
            if problem.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
                self.gone_since = self.gone_since or time.monotonic()
                if time.monotonic() - self.gone_since > GONE_SECONDS:
                    self.lose(self.offsets.end, f"{name_of(problem.code)}: the partition does not exist any more")
                    return
        log.warning("reading %s: %s", self.offsets.topic_partition, problem)
        cluster.stale(self.offsets.topic, connection if isinstance(problem, OSError) else None)
        time.sleep(RETRY_SECONDS)

    def at_partition_end(self, cluster: WireCluster) -> None:
        """The leader shows nothing at the position. Loss, if its end stays below ours: just elected, it may not know yet what is committed."""
        for _ in range(self.attempts_max):
            low, high = self.watermarks(cluster)
            if high >= self.offsets.end:
                return
            time.sleep(self.retry_s)
        self.lose(self.offsets.end, f"the log now ends at {high} (it starts at {low})")

    def out_of_range(self, cluster: WireCluster) -> None:
        """The broker does not have the position: skip to what it has, if the options allow it."""
        low, high = self.watermarks(cluster)
        available = f"the broker holds [{low}, {high})"
        if self.position < low < self.offsets.end:
            self.lose(low, available)
        elif low <= self.position < high:
            log.warning("offset %d of %s was out of range and is back", self.position, self.offsets.topic_partition)
        elif self.position > high:
            self.at_partition_end(cluster)
        else:
            self.lose(self.offsets.end, available)

    def watermarks(self, cluster: WireCluster) -> tuple[int, int]:
        deadline = time.monotonic() + LOOKUP_SECONDS_MAX
        low, high = (cluster.offset(self.offsets.topic, self.offsets.partition, which, deadline) for which in (-2, -1))
        return low, high

    def lose(self, until: int, why: str) -> None:
        """Offsets from the position to `until` cannot be read: fail, or say so and go on behind them."""
        detail = f"Could not read records in offset [{self.position}, {until}) for topic partition {self.offsets.topic_partition}: {why}."
        loss = DataLoss("COULD_NOT_READ_OFFSET_RANGE", detail)
        if self.fail_on_data_loss:
            raise loss
        log.warning("%s", loss)
        self.position = until

    def rows(self, found: list[RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
        """The records from offset `first` on: a batch may begin before what was asked for, and before what may be read."""
        data = [batch for batch in found if not batch.is_control]
        columns = decode(data, first, self.offsets.end) if data else None
        if columns is None:
            return
        whole = pa.RecordBatch.from_arrays(self.arrays(columns), schema=self.schema)
        for start in range(0, whole.num_rows, ROWS_MAX):
            yield whole.slice(start, ROWS_MAX)

    def arrays(self, found: Columns) -> list[pa.Array]:
        count = len(found.offsets)
        if found.timestamps_ms.max() > TIMESTAMP_MS_MAX:
            where = f"topic {self.offsets.topic} partition {self.offsets.partition} from offset {found.offsets[0]}"
            detail = f"A record at {where} has timestamp value {found.timestamps_ms.max()} that overflows Spark's microsecond-precision TimestampType."
            raise SourceError("KAFKA_MALFORMED_RECORD_TIMESTAMP", detail)
        arrays = [
            found.keys,
            found.values,
            pa.repeat(pa.scalar(self.offsets.topic, pa.string()), count),
            pa.array(np.full(count, self.offsets.partition, np.int32)),
            pa.array(found.offsets),
            pa.array(found.timestamps_ms * 1000, self.schema.field("timestamp").type),
            pa.array(found.timestamp_types),
        ]
        return [*arrays, self.headers(found)] if self.include_headers else arrays

    def headers(self, found: Columns) -> pa.Array:
        """Headers in order, duplicates kept; null where a record has none, as the official connector has it."""
        rows: list[list[dict[str, object]] | None] = [None] * len(found.offsets)
        for index in np.flatnonzero(found.header_counts).tolist():
            rows[index] = headers_at(found.data, int(found.header_starts[index]), int(found.header_counts[index]))
        return pa.array(rows, self.schema.field("headers").type)


def headers_at(data: Any, position: int, count: int) -> list[dict[str, object]]:
    """`count` headers from `position` on. Raises InvalidRecord."""
    view = memoryview(data)
    found: list[dict[str, object]] = []
    try:
        for _ in range(count):
            size, position = read_varint(view, position)
            name = str(view[position : position + size], "utf-8")
            size_of_value, position = read_varint(view, position + size)
            value = None if size_of_value < 0 else bytes(view[position : position + size_of_value])
            position += max(size_of_value, 0)
            found.append({"key": name, "value": value})
    except (IndexError, ValueError) as problem:
        raise InvalidRecord(f"a header: {problem}") from problem
    return found
