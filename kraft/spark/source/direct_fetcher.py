"""Reads one range of offsets over kraft's own connection: Fetch, check, decode whole responses into Arrow. Faster than
librdkafka.

The next Fetch is in flight while a response is decoded. The range ends when the position reaches its end. A batch's
header gives the offset after the batch, so control records and compacted records never block the end. Data loss is
defined as in `PartitionFetcher`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.records.aborted import marked_aborted
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.spark.client.wire import (
    FETCH_BY_ID_VERSION,
    POOL,
    RETRY_SECONDS,
    UNKNOWN_TOPIC,
    WireCluster,
    WireConnection,
    WireError,
)
from kraft.spark.client.wire_security import PLAINTEXT, WireSecurity
from kraft.spark.errors import not_read
from kraft.spark.source.leader_agreement import MAJORITY_SECONDS, LeaderAgreement
from kraft.spark.source.ranges import OffsetRange
from kraft.spark.source.record_rows import RecordRows

log = logging.getLogger(__name__)
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NO_ID = bytes(16)
FETCH_BYTES = 4 << 20
FETCH_SPARE_BYTES = 64 << 10
OFFSET_BYTES_FIRST = 200.0
"""Estimated bytes per offset before any was read."""
FETCH_WAIT_MS = 100
LOOKUP_SECONDS_MAX = 5.0
SETTLING_SECONDS_MAX = 2 * MAJORITY_SECONDS
"""Time that the confirmation of lost data may take beyond the poll timeout, if a majority of the nodes already
agrees."""


class DirectFetcher:
    """Iterator over the rows of one range; iterate only once. Times are in ms."""

    def __init__(
        self,
        offsets: OffsetRange,
        bootstrap: str,
        *,
        include_headers: bool,
        fail_on_data_loss: bool,
        poll_timeout_ms: int,
        attempts_max: int,
        retry_ms: int,
        refuse_names: bool = False,
        committed: bool = False,
        security: WireSecurity = PLAINTEXT,
    ) -> None:
        """`committed`: leave out records of aborted and open transactions (read_committed)."""
        self.committed = committed
        self.offsets = offsets
        self.bootstrap = bootstrap
        self.security = security
        self.fail_on_data_loss = fail_on_data_loss
        self.poll_timeout_s = poll_timeout_ms / 1000
        self.retry_s = retry_ms / 1000
        # offsets.start <= position; every record below it is delivered or known not to exist
        self.position = offsets.start
        self.offset_bytes = OFFSET_BYTES_FIRST
        self.short = LeaderAgreement(attempts_max, self.poll_timeout_s)  # whether the log lacks the position
        self.gone = LeaderAgreement(1, self.poll_timeout_s)  # whether the partition is no more
        self.seen = ""  # the state seen by the last look
        self.rows = RecordRows(offsets, include_headers, refuse_names=refuse_names)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self.offsets.size <= 0:
            return
        cluster = POOL.get(self.bootstrap, security=self.security)
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
            first, found = self.position, []
            try:
                if connection is None:
                    connection = cluster.leader(self.offsets.topic, self.offsets.partition)
                    self.ask(cluster, connection)
                found = self.accept(cluster, connection.receive().responses[0].partitions[0])
                if found and self.position < self.offsets.end and not connection.is_over:
                    self.ask(cluster, connection)  # Comes while this answer is decoded.
                else:
                    connection = None
            except (OSError, WireError) as problem:
                self.failed(cluster, connection, problem)
                connection = None
            yield from self.rows.rows(found, first)
            if self.position > before:
                progress, before = time.monotonic(), self.position
                self.short.clear()
            elif time.monotonic() - progress > self.poll_timeout_s + (
                SETTLING_SECONDS_MAX if self.short.is_settling or self.gone.is_settling else 0
            ):
                raise TimeoutError(self.nothing_came())

    def nothing_came(self) -> str:
        wanted = f"offset {self.position} of {self.offsets.topic_partition}"
        return f"Cannot fetch record for {wanted} in {self.poll_timeout_s * 1000:.0f} milliseconds" + (
            f": {self.seen}" if self.seen else ""
        )

    def ask(self, cluster: WireCluster, connection: WireConnection) -> None:
        """Send the next Fetch, by topic id if the plan has one and the broker supports it. A recreated topic of the
        same name is then not read."""
        if self.offsets.topic_id is not None and connection.fetches_by_id:
            connection.send(self.request(cluster), FETCH_BY_ID_VERSION)
        else:
            connection.send(self.request(cluster))

    def request(self, cluster: WireCluster) -> FetchRequest:
        """Build the next Fetch request. Its size limit is estimated from the bytes per offset seen so far, so that a
        short range does not fetch megabytes beyond its end."""
        topic, partition, _, end, topic_id = self.offsets
        size = min(FETCH_BYTES, FETCH_SPARE_BYTES + int((end - self.position) * self.offset_bytes))
        epoch = cluster.view.epoch(topic, partition)
        wanted = FetchPartition(
            partition=partition, current_leader_epoch=epoch, fetch_offset=self.position, partition_max_bytes=size
        )
        return FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=size,
            isolation_level=READ_COMMITTED if self.committed else READ_UNCOMMITTED,
            topics=[FetchTopic(topic=topic, topic_id=topic_id or NO_ID, partitions=[wanted])],
        )

    def accept(self, cluster: WireCluster, answer: Any) -> list[RecordBatch]:
        """Return the batches of a response to decode, and move the position behind them. Raises WireError for an error
        code."""
        if answer.error_code not in UNKNOWN_TOPIC:
            self.gone.clear()
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.look(cluster)
            return []
        if answer.error_code:
            raise WireError(answer.error_code, f"reading {self.offsets.topic_partition} at {self.position}")
        found = []
        for batch in batches(answer.records or b"", partial_tail=True):
            # A broker sends whole chunks: batches after the range are ignored.
            if batch.base_offset >= self.offsets.end:
                self.position = self.offsets.end
                break
            batch.verify_crc()
            found.append(batch)
        if found:
            self.position = max(self.position, min(found[-1].next_offset, self.offsets.end))
            self.offset_bytes = sum(batch.size for batch in found) / max(
                1, found[-1].next_offset - found[0].base_offset
            )
        elif (
            self.position < self.offsets.end
            and answer.high_watermark < self.offsets.end
            and answer.high_watermark <= self.position
        ):
            self.look(cluster)
        if not self.committed or not answer.aborted_transactions:
            return found
        aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions]
        return [batch for batch, is_aborted in marked_aborted(found, aborted) if not is_aborted]

    def failed(self, cluster: WireCluster, connection: WireConnection | None, problem: OSError | WireError) -> None:
        """Handle a failed Fetch: look for the leader again. Raises errors that cannot be retried. A topic that stays
        unknown is data loss."""
        log.warning("reading %s: %s", self.offsets.topic_partition, problem)
        if isinstance(problem, WireError):
            if not problem.is_retriable:
                raise problem
            if problem.code in UNKNOWN_TOPIC:
                self.look_whether_gone(cluster, problem)
            else:
                self.gone.clear()
        cluster.stale(self.offsets.topic, connection if isinstance(problem, OSError) else None)
        time.sleep(RETRY_SECONDS)

    def look_whether_gone(self, cluster: WireCluster, problem: WireError) -> None:
        views = cluster.views(self.offsets.topic, self.offsets.partition, self.offsets.topic_id)
        if self.gone.believed(None, views, time.monotonic()):
            what = (
                "the topic was deleted since the read was planned; another topic may have its name now"
                if problem.code == ErrorCode.UNKNOWN_TOPIC_ID
                else "the partition does not exist any more"
            )
            self.lose(self.offsets.end, f"{name_of(problem.code)}: {what}")
        else:
            self.seen = str(self.gone)

    def look(self, cluster: WireCluster) -> None:
        """Handle an offset out of range: ask the current leader for its log start and end. If the leader confirms that
        the position is missing and the options allow it, skip to the next offset that exists."""
        topic, partition, _, end, _ = self.offsets
        cluster.stale(topic)
        deadline = time.monotonic() + LOOKUP_SECONDS_MAX
        low, high = cluster.bounds(topic, partition, deadline)
        leader = cluster.view.leader(topic, partition)
        if low <= self.position < high:
            self.short.clear()
            time.sleep(RETRY_SECONDS)
            return
        deleted = self.position < low  # A log's start never goes back.
        views = cluster.views(topic, partition)
        if cluster.view.leader(topic, partition) != leader:
            self.short.clear()  # A newer one: it is asked next.
        elif self.short.believed(leader, views, time.monotonic(), lasting=deleted):
            self.lose(
                min(low, end) if deleted else end,
                f"the broker holds [{low}, {high})" if deleted else f"the log now ends at {high} (it starts at {low})",
            )
        else:
            self.seen = f"the log ends at {high} (it starts at {low}), and {self.short}"
            log.warning("reading %s: %s", self.offsets.topic_partition, self.seen)
            time.sleep(self.retry_s)

    def lose(self, until: int, why: str) -> None:
        """Handle the loss of the offsets from the position to `until`. Either fail, or log a warning and continue at
        `until`. The option `failOnDataLoss` decides."""
        loss = not_read(self.offsets.topic_partition, self.position, until, why)
        if self.fail_on_data_loss:
            raise loss
        log.warning("%s", loss)
        self.position = until
