"""Records waiting to be sent: a queue of batches for each partition, with one limit on their total bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import trio

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.records.builder import build_batch, build_values_batch
from kraft.protocol.records.record import Headers, Record

RECORD_OVERHEAD_BYTES = 40
"""Approximate bytes of a record besides key, value and headers."""

VALUE_OVERHEAD_BYTES = 20
"""The maximum bytes of a value's encoding in a batch, besides the value."""


class Delivery:
    """The outcome of one record, or of several values that are sent together."""

    __slots__ = ("_done", "_error", "_left", "count", "is_done", "last_offset", "offset", "partition", "timestamp")

    def __init__(self, partition: TopicPartition, timestamp: int, count: int = 1) -> None:
        self.partition = partition
        self.count = count
        """The number of records."""
        self._left = count
        self.timestamp = timestamp
        """Milliseconds since 1970. In a topic with LogAppendTime the acknowledgement replaces it by the broker's
        time."""
        self.offset = -1
        """Offset of the first record, after the acknowledgement. Stays -1 with acks=0 and for a duplicate batch."""
        self.last_offset = -1
        self.is_done = False
        self._done: trio.Event | None = None
        """Created when a task waits: an event takes as much memory as the rest of the object."""
        self._error: KraftError | None = None

    async def settled(self) -> None:
        """Wait until the delivery is acknowledged or has failed."""
        if self._done is None:
            self._done = trio.Event()
            if self.is_done:
                self._done.set()
        await self._done.wait()

    async def wait(self) -> Delivery:
        """Wait until the delivery is acknowledged, and return it. Raises ApiError or DeadlinePassed if it failed."""
        await self.settled()
        return self.outcome()

    def outcome(self) -> Delivery:
        """Return or raise as `wait`, without waiting. The delivery must be done."""
        assert self.is_done
        if self._error is not None:
            raise self._error
        return self

    def succeed(self, offset: int, log_append_time_ms: int, count: int = 1) -> None:
        """Mark `count` of its records as acknowledged, the first of them at `offset` (-1: unknown)."""
        if offset >= 0:
            self.offset = offset if self.offset < 0 else min(offset, self.offset)
            self.last_offset = max(self.last_offset, offset + count - 1)
        if log_append_time_ms >= 0:
            self.timestamp = log_append_time_ms
        self._count_down(count)

    def fail(self, error: KraftError, count: int = 1) -> None:
        """Mark `count` of its records as failed."""
        self._error = error
        self._count_down(count)

    def _count_down(self, count: int) -> None:
        self._left -= count
        if self._left <= 0:
            self.is_done = True
            if self._done is not None:
                self._done.set()


class Batch(Protocol):
    """Records that are sent together to one partition. It is encoded at the first send; retries reuse the bytes."""

    deadline: float
    bytes_estimated: int
    encoded: bytes | None
    producer_id: int
    epoch: int
    sequence: int

    @property
    def count(self) -> int:
        """The number of records in the batch."""

    @property
    def last_delivery(self) -> Delivery:
        """The delivery that is settled last."""

    def build(self, codec: int, *, is_transactional: bool) -> bytes:
        """Encode the batch with its `producer_id`, `epoch` and `sequence`."""

    def halves(self) -> tuple[Batch, Batch]:
        """Split the batch, of at least two records, into two batches that are not encoded yet."""

    def succeed(self, base_offset: int, log_append_time_ms: int) -> None:
        """Mark the batch as acknowledged. `base_offset` is -1 if unknown."""

    def fail(self, error: KraftError) -> None:
        """Mark the batch as failed."""


class PendingValues:
    """A `Batch` of values without keys and headers. No object is created per value."""

    __slots__ = ("_delivery", "_values", "bytes_estimated", "deadline", "encoded", "epoch", "producer_id", "sequence")

    def __init__(self, deadline: float, delivery: Delivery, values: Sequence[bytes], size: int) -> None:
        self.deadline = deadline
        self.bytes_estimated = size
        self.encoded: bytes | None = None
        self.producer_id = -1
        self.epoch = -1
        self.sequence = -1
        self._values = values
        self._delivery = delivery

    @property
    def count(self) -> int:
        return len(self._values)

    @property
    def last_delivery(self) -> Delivery:
        return self._delivery

    def build(self, codec: int, *, is_transactional: bool) -> bytes:
        return build_values_batch(
            self._values,
            self._delivery.timestamp,
            codec=codec,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=is_transactional,
        )

    def halves(self) -> tuple[PendingValues, PendingValues]:
        middle = len(self._values) // 2
        first = self.bytes_estimated * middle // len(self._values)
        return (
            PendingValues(self.deadline, self._delivery, self._values[:middle], first),
            PendingValues(self.deadline, self._delivery, self._values[middle:], self.bytes_estimated - first),
        )

    def succeed(self, base_offset: int, log_append_time_ms: int) -> None:
        self._delivery.succeed(base_offset, log_append_time_ms, len(self._values))

    def fail(self, error: KraftError) -> None:
        self._delivery.fail(error, len(self._values))


class PendingBatch:
    """A `Batch` to which records are added one by one."""

    __slots__ = (
        "_deliveries",
        "_records",
        "bytes_estimated",
        "deadline",
        "encoded",
        "epoch",
        "producer_id",
        "sequence",
    )

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.bytes_estimated = 0
        self.encoded: bytes | None = None
        self.producer_id = -1
        self.epoch = -1
        self.sequence = -1
        self._records: list[Record] = []
        self._deliveries: list[Delivery] = []

    @property
    def count(self) -> int:
        return len(self._records)

    @property
    def last_delivery(self) -> Delivery:
        return self._deliveries[-1]

    def takes(self, size: int, batch_bytes: int) -> bool:
        """Whether a record of `size` bytes can be added. A batch that was sent once is encoded, so nothing can be
        added, not even while it waits for a retry."""
        return self.encoded is None and self.bytes_estimated + size <= batch_bytes

    def add(self, delivery: Delivery, key: bytes | None, value: bytes | None, headers: Headers, size: int) -> None:
        self._records.append(Record(len(self._records), delivery.timestamp, key, value, headers))
        self._deliveries.append(delivery)
        self.bytes_estimated += size

    def build(self, codec: int, *, is_transactional: bool) -> bytes:
        return build_batch(
            self._records,
            codec=codec,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=is_transactional,
        )

    def halves(self) -> tuple[PendingBatch, PendingBatch]:
        middle = len(self._records) // 2
        first, second = PendingBatch(self.deadline), PendingBatch(self.deadline)
        for index, (record, delivery) in enumerate(zip(self._records, self._deliveries, strict=True)):
            size = record_size(record.key, record.value, record.headers)
            (first if index < middle else second).add(delivery, record.key, record.value, record.headers, size)
        return first, second

    def succeed(self, base_offset: int, log_append_time_ms: int) -> None:
        for index, delivery in enumerate(self._deliveries):
            delivery.succeed(-1 if base_offset < 0 else base_offset + index, log_append_time_ms)

    def fail(self, error: KraftError) -> None:
        for delivery in self._deliveries:
            delivery.fail(error)


class PartitionQueue:
    """The batches of one partition, oldest first. At most one is in flight, so retries keep the order."""

    __slots__ = ("batches", "in_flight", "is_aside", "next_sequence", "partition", "producer_epoch", "producer_id")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight: Batch | None = None
        self.is_aside = False  # The partition had no leader at the last look-up.
        self.next_sequence = 0
        self.producer_id = -1  # Whom `next_sequence` belongs to.
        self.producer_epoch = -1

    @property
    def is_waiting(self) -> bool:
        return bool(self.batches) and self.in_flight is None

    def is_ready(self, producer: tuple[int, int] | None) -> bool:
        """Whether the oldest batch can be sent by `producer` (id and epoch; None: not idempotent). A batch that was
        never sent waits until there is a producer id."""
        return self.is_waiting and (producer is None or producer[0] >= 0 or self.batches[0].encoded is not None)

    def take(self, producer: tuple[int, int] | None, codec: int, *, is_transactional: bool = False) -> bytes:
        """Put the oldest batch in flight and return its bytes. A retried batch keeps its producer id, epoch and
        sequence."""
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
            batch.encoded = batch.build(codec, is_transactional=is_transactional)
        return batch.encoded


class Accumulator:
    """All queues of one producer. Callers wait for `room` before they add."""

    def __init__(self, batch_bytes: int, bytes_max: int) -> None:
        self._batch_bytes = batch_bytes
        self._bytes_max = bytes_max
        self._bytes = 0
        self._freed = trio.Event()
        self.queues: dict[TopicPartition, PartitionQueue] = {}

    async def room(self, size: int) -> None:
        """Wait until `size` more bytes are within the limit. A record larger than the limit waits until the queues are
        empty."""
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
        """Queue a record. Returns whether it started a new batch."""
        batches = self._queue(partition).batches
        last = batches[-1] if batches else None
        begins = not isinstance(last, PendingBatch) or not last.takes(size, self._batch_bytes)
        if begins or not isinstance(last, PendingBatch):
            last = PendingBatch(deadline)
            batches.append(last)
        last.add(delivery, key, value, headers, size)
        self._bytes += size
        return begins

    @staticmethod
    def check(values: Sequence[bytes]) -> None:
        """Raise TypeError for values that are not bytes."""
        if not {bytes}.issuperset(map(type, values)):
            _require_bytes(*values)

    def add_values(self, delivery: Delivery, values: Sequence[bytes], size: int, deadline: float) -> None:
        """Queue the values as a batch of their own. They must fit into one."""
        self._queue(delivery.partition).batches.append(PendingValues(deadline, delivery, values, size))
        self._bytes += size

    def _queue(self, partition: TopicPartition) -> PartitionQueue:
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(partition)
        return queue

    def release(self, batch: Batch) -> None:
        """Subtract a finished batch from the buffered bytes, and wake callers that wait for room."""
        self._bytes -= batch.bytes_estimated
        self._freed.set()
        self._freed = trio.Event()

    def last_deliveries(self) -> list[Delivery]:
        """Return, for each batch, the delivery that is settled last."""
        waiting = [
            batch for queue in self.queues.values() for batch in (queue.in_flight, *queue.batches) if batch is not None
        ]
        return [batch.last_delivery for batch in waiting]


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the approximate size of a record in bytes. Raises TypeError for a wrong type, and ValueError for a header
    name that is not valid Unicode."""
    if type(value) is not bytes or (key is not None and type(key) is not bytes):
        _require_bytes(key, value)
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    if not headers:
        return size
    _require_bytes(*(content for _, content in headers))
    return size + sum(len(name.encode()) + len(content or b"") + 4 for name, content in headers)


def _require_bytes(*contents: bytes | None) -> None:
    """Raise TypeError for contents that are not bytes. In a batch, such a value would fail all other records."""
    for content in contents:
        if content is not None and not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(f"keys, values and contents of headers are bytes, not {type(content).__name__}")
