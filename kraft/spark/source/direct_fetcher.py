"""Reads one range of offsets over a connection of our own: Fetch, check, decode whole answers into Arrow. The fast
way.

The next Fetch is on its way while an answer is decoded. The range ends when the position reaches its end: a batch's
header tells the offset behind it, so control records and what compaction took leave no gap to wait for. What counts
as loss is what it is for `PartitionFetcher`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
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
from kraft.spark.source.aborted import without_aborted
from kraft.spark.source.leader_agreement import MAJORITY_SECONDS, LeaderAgreement
from kraft.spark.source.ranges import OffsetRange
from kraft.spark.source.record_rows import RecordRows

log = logging.getLogger(__name__)
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NO_ID = bytes(16)
FETCH_BYTES = 4 << 20
FETCH_SPARE_BYTES = 64 << 10
OFFSET_BYTES_FIRST = 200.0
"""What an offset is taken to need before any was read."""
FETCH_WAIT_MS = 100
LOOKUP_SECONDS_MAX = 5.0
SETTLING_SECONDS_MAX = 2 * MAJORITY_SECONDS
"""How much longer than the poll timeout a question may take on which a majority of the nodes agrees already."""


class DirectFetcher:
    """One range, read once: iterate over it. Times are in ms."""

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
        """`committed`: records of transactions that were aborted, or are open, are left out."""
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
        self.seen = ""  # what the last of these looks has seen
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
        """By the id of the topic that was planned, where the broker takes ids: another one of its name is not read."""
        if self.offsets.topic_id is not None and connection.fetches_by_id:
            connection.send(self.request(cluster), FETCH_BY_ID_VERSION)
        else:
            connection.send(self.request(cluster))

    def request(self, cluster: WireCluster) -> FetchRequest:
        """For as many bytes as the rest of the range takes by what was seen so far, so that megabytes behind a short
        range stay where they are."""
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
        """The batches of an answer that are to be read. The position is behind all that it holds. Raises WireError for
        one that says no."""
        if answer.error_code not in UNKNOWN_TOPIC:
            self.gone.clear()
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.look(cluster)
            return []
        if answer.error_code:
            raise WireError(answer.error_code, f"reading {self.offsets.topic_partition} at {self.position}")
        found = []
        for batch in batches(answer.records or b"", partial_tail=True):
            # A broker sends whole chunks: what is behind the range is left alone.
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
        return without_aborted(found, answer.aborted_transactions or ()) if self.committed else found

    def failed(self, cluster: WireCluster, connection: WireConnection | None, problem: OSError | WireError) -> None:
        """Look for the leader again. Raises what will not pass; a topic that stays away is loss."""
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
                "the topic was deleted since the read was planned; another may have its name"
                if problem.code == ErrorCode.UNKNOWN_TOPIC_ID
                else "the partition does not exist any more"
            )
            self.lose(self.offsets.end, f"{name_of(problem.code)}: {what}")
        else:
            self.seen = str(self.gone)

    def look(self, cluster: WireCluster) -> None:
        """A leader shows nothing at the position. Skip to what there is, if that is so, and the options allow it:
        asked of the leader as it is known now."""
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
        """Offsets from the position to `until` cannot be read: fail, or say so and go on behind them."""
        loss = not_read(self.offsets.topic_partition, self.position, until, why)
        if self.fail_on_data_loss:
            raise loss
        log.warning("%s", loss)
        self.position = until
