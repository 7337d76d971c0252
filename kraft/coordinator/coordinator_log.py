"""What a coordinator needs of the replicated log: a port, implemented by the server over its replica manager."""

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
    """A record batch as the loader reads it; `kraft.protocol.records.record_batch.RecordBatch` is one."""

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
    """Partitions of the coordinator's internal topic, on the node that leads them. Refusals are ApiError with the
    code a Produce would get."""

    async def append(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        records: Sequence[LogRecord],
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> int:
        """Append the records as one batch, of the producer's transaction where there is one, whole or not at all;
        returns the offset of the last one. Raises ReloadNeeded where they are in the log, and could not be made
        durable.

        Refuses with NOT_LEADER_OR_FOLLOWER unless this node leads the partition at exactly `leader_epoch`: a
        coordinator of an older epoch must not write. It returns once the local log has the batch; replication is
        told by the high watermark. May be cancelled; the batch is then appended or not."""

    def append_at_once(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        records: Sequence[LogRecord],
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> int | None:
        """`append`, where nothing has to be waited for. None where something has, a thread, a disk or who is appending:
        nothing is appended then. Listeners of the high watermark may be called meanwhile."""

    def append_marker_at_once(
        self, partition: TopicPartition, leader_epoch: int, marker: Marker, timestamp_ms: int
    ) -> int | None:
        """`append_marker`, as `append_at_once`."""

    async def append_marker(
        self, partition: TopicPartition, leader_epoch: int, marker: Marker, timestamp_ms: int
    ) -> int:
        """Append the end of a transaction, as `append`. One that is in the log already is not written again: the offset
        returned is that of the log's last record."""

    def start_verification(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, *, implicit: bool
    ) -> Verification | None:
        """The verification to append the first records of a producer's transaction with, once its coordinator has
        confirmed it. None where the transaction is open already. Raises KraftError where this node does not lead the
        partition."""

    async def read(self, partition: TopicPartition, from_offset: int) -> Sequence[LoadedBatch]:
        """The next batches from `from_offset` on (the first may begin below it), up to the end of the local log. Empty
        at the end."""

    def batch_bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The greatest size of a batch, and so of one record with its batch (max.message.bytes), and of what the log
        can store at all (segment.bytes). Raises KraftError where this node does not lead the partition."""

    def log_start_offset(self, partition: TopicPartition) -> int: ...
    def high_watermark(self, partition: TopicPartition) -> int:
        """One past the last offset that every in-sync replica has."""

    def on_high_watermark(self, partition: TopicPartition, listener: Callable[[int], None]) -> Callable[[], None]:
        """Call `listener(high watermark)` on the loop each time it rises. Returns the function that ends it."""
