"""The replicated log as a coordinator uses it: a port, implemented by the server over its replica manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from kraft.common.ids import TopicPartition
from kraft.coordinator.shard import LogRecord, Marker, Producer
from kraft.storage.producers.verification import Verification


class LoadedRecord(Protocol):
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...


class LoadedBatch(Protocol):
    """A record batch as the loader reads it, such as `kraft.protocol.records.record_batch.RecordBatch`."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def count(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    def records(self) -> Iterable[LoadedRecord]: ...
    def payload(self) -> bytes | memoryview:
        """The encoded records, decompressed."""


class CoordinatorLog(Protocol):
    """Partitions of the coordinator's internal topic on their leader. Errors are ApiError with the code a Produce would
    get."""

    async def append(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        content: Sequence[LogRecord] | Marker,
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> int:
        """Append the records as one batch, atomically, optionally in a producer's transaction; or a transaction marker.
        Returns the offset of the last record. A marker already in the log is not written again; the returned offset is
        then that of the log's last record. Raises ReloadNeeded if the content is in the log but could not be made
        durable.

        Raises NOT_LEADER_OR_FOLLOWER unless this node leads the partition at exactly `leader_epoch`: a coordinator of
        an older epoch must not write. Returns once the local log has the batch; replication is observed through the
        high watermark. If cancelled, the batch may or may not be appended.
        """

    def append_at_once(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        content: Sequence[LogRecord] | Marker,
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> tuple[int, int] | None:
        """Append like `append`, but only if that needs no waiting for a thread, a disk or another append. Returns the
        last offset and the high watermark after the append. Otherwise returns None and appends nothing. May call
        listeners of the high watermark."""

    def start_verification(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, *, implicit: bool
    ) -> Verification | None:
        """Start to verify a producer's transaction in the partition. The first records of the transaction are appended
        with the returned verification, after the transaction coordinator has confirmed the partition. None if the
        transaction is already open there. Raises KraftError if this node does not lead the partition."""

    async def read(self, partition: TopicPartition, from_offset: int) -> Sequence[LoadedBatch]:
        """Read the next batches from `from_offset` on, up to the end of the local log. The first may begin below it.
        Empty at the end."""

    def batch_bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The largest batch (max.message.bytes), which also bounds a single record, and the most that the log can store
        (segment.bytes). Raises KraftError if this node does not lead the partition."""

    def log_start_offset(self, partition: TopicPartition) -> int: ...
    def high_watermark(self, partition: TopicPartition) -> int:
        """One past the last offset that every in-sync replica has."""

    def on_high_watermark(self, partition: TopicPartition, listener: Callable[[int], None]) -> Callable[[], None]:
        """Call `listener(high watermark)` on the loop each time it rises. Returns the function that unsubscribes."""
