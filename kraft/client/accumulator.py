"""Records that wait to be sent: a queue of batches for each partition, bounded in bytes all together."""

from __future__ import annotations

from collections import deque

import trio

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Headers, Record

RECORD_OVERHEAD_BYTES = 40
"""About what a record costs beside its key, value and headers."""


class Delivery:
    """What comes of one record."""

    __slots__ = ("_done", "_error", "offset", "partition", "timestamp")

    def __init__(self, partition: TopicPartition, timestamp: int) -> None:
        self.partition = partition
        self.timestamp = timestamp
        """Ms since 1970; the broker's once it is acknowledged, where the topic says so."""
        self.offset = -1
        """Known once it is acknowledged; stays -1 with acks=0, and for a batch that the broker had already."""
        self._done = trio.Event()
        self._error: KraftError | None = None

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    async def settled(self) -> None:
        """Until it is acknowledged or given up."""
        await self._done.wait()

    async def wait(self) -> Delivery:
        """Until it is acknowledged. Raises ApiError or DeadlinePassed when it was given up."""
        await self.settled()
        return self.outcome()

    def outcome(self) -> Delivery:
        """The same for one that `is_done`, without waiting."""
        assert self.is_done
        if self._error is not None:
            raise self._error
        return self

    def succeed(self, offset: int, log_append_time_ms: int) -> None:
        self.offset = offset
        if log_append_time_ms >= 0:
            self.timestamp = log_append_time_ms
        self._done.set()

    def fail(self, error: KraftError) -> None:
        self._error = error
        self._done.set()


class PendingBatch:
    """Records for one partition that travel together. Its bytes are made when it is sent first, and stay the same
    when it is sent again."""

    __slots__ = ("bytes_estimated", "deadline", "deliveries", "encoded", "epoch", "producer_id", "records", "sequence")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.records: list[Record] = []
        self.deliveries: list[Delivery] = []
        self.bytes_estimated = 0
        self.encoded: bytes | None = None
        self.producer_id = -1
        self.epoch = -1
        self.sequence = -1

    def takes(self, size: int, batch_bytes: int) -> bool:
        """Whether a record may join. None may once the batch was sent, also when it waits to be sent again: its
        bytes are made."""
        return self.encoded is None and self.bytes_estimated + size <= batch_bytes

    def halves(self) -> tuple[PendingBatch, PendingBatch]:
        """The same records in two batches, not made into bytes yet."""
        middle = len(self.records) // 2
        first, second = PendingBatch(self.deadline), PendingBatch(self.deadline)
        for index, (record, delivery) in enumerate(zip(self.records, self.deliveries, strict=True)):
            size = record_size(record.key, record.value, record.headers)
            (first if index < middle else second).add(delivery, record.key, record.value, record.headers, size)
        return first, second

    def add(self, delivery: Delivery, key: bytes | None, value: bytes | None, headers: Headers, size: int) -> None:
        self.records.append(Record(len(self.records), delivery.timestamp, key, value, headers))
        self.deliveries.append(delivery)
        self.bytes_estimated += size


class PartitionQueue:
    """Batches of one partition, oldest first. At most one is on its way, so order is kept whatever has to be sent
    again."""

    __slots__ = ("batches", "in_flight", "is_aside", "next_sequence", "partition", "producer_epoch", "producer_id")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[PendingBatch] = deque()
        self.in_flight: PendingBatch | None = None
        self.is_aside = False  # Nobody led it a moment ago.
        self.next_sequence = 0
        self.producer_id = -1  # Whom `next_sequence` belongs to.
        self.producer_epoch = -1

    @property
    def is_waiting(self) -> bool:
        return bool(self.batches) and self.in_flight is None

    def is_ready(self, producer: tuple[int, int] | None) -> bool:
        """Whether its oldest batch may be sent by `producer` (id and epoch; None: not idempotent). A new one waits
        while there is no id."""
        return self.is_waiting and (producer is None or producer[0] >= 0 or self.batches[0].encoded is not None)

    def take(self, producer: tuple[int, int] | None, codec: int, *, is_transactional: bool = False) -> bytes:
        """The oldest batch goes on its way, as what it was if it was sent before."""
        batch = self.in_flight = self.batches.popleft()
        if batch.encoded is None:
            if producer is not None:
                if (self.producer_id, self.producer_epoch) != producer:
                    self.producer_id, self.producer_epoch = producer
                    self.next_sequence = 0
                batch.producer_id, batch.epoch, batch.sequence = (
                    self.producer_id,
                    self.producer_epoch,
                    self.next_sequence,
                )
            batch.encoded = build_batch(
                batch.records,
                codec=codec,
                producer_id=batch.producer_id,
                producer_epoch=batch.epoch,
                base_sequence=batch.sequence,
                is_transactional=is_transactional,
            )
        return batch.encoded


class Accumulator:
    """All queues of one producer. Whoever adds waits for `room` first."""

    def __init__(self, batch_bytes: int, bytes_max: int) -> None:
        self._batch_bytes = batch_bytes
        self._bytes_max = bytes_max
        self._bytes = 0
        self._freed = trio.Event()
        self.queues: dict[TopicPartition, PartitionQueue] = {}

    async def room(self, size: int) -> None:
        """Wait until `size` more bytes are within the bound; a record greater than the bound waits until it is
        alone."""
        while self._bytes > 0 and self._bytes + size > self._bytes_max:
            await self._freed.wait()

    def add(
        self,
        partition: TopicPartition,
        delivery: Delivery,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        size: int,
        deadline: float,
    ) -> bool:
        """Whether a new batch began with it."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(partition)
        begins = not queue.batches or not queue.batches[-1].takes(size, self._batch_bytes)
        if begins:
            queue.batches.append(PendingBatch(deadline))
        queue.batches[-1].add(delivery, key, value, headers, size)
        self._bytes += size
        return begins

    def release(self, batch: PendingBatch) -> None:
        """The batch is done, one way or the other."""
        self._bytes -= batch.bytes_estimated
        self._freed.set()
        self._freed = trio.Event()

    def last_deliveries(self) -> list[Delivery]:
        """Of each batch the one that is settled last."""
        waiting = [
            batch for queue in self.queues.values() for batch in (queue.in_flight, *queue.batches) if batch is not None
        ]
        return [batch.deliveries[-1] for batch in waiting]


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    return (
        RECORD_OVERHEAD_BYTES
        + len(key or b"")
        + len(value or b"")
        + sum(len(name) + len(content or b"") + 4 for name, content in headers)
    )
