"""Send records. New batches fill for each partition while earlier ones are in flight. A batch is retried until it is
acknowledged or times out.

One task, `run`, sends. At most one batch per partition is in flight, so retries never reorder. At most one request per
node is in flight, with a batch of every ready partition. A partition without a leader does not delay others. With
`idempotent` a batch has a producer id, epoch and sequence (KIP-98), so a retried batch is stored once. After a sent
batch fails, a new producer id is used. Otherwise, if that batch was stored, the broker would take the next one with its
sequence for a duplicate, and acknowledge it unstored. Java's producer raises its epoch in this case.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import trio

from kraft.admin.errors import Refused, check
from kraft.common.errors import ApiError, KraftError, ProtocolError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode, is_retriable
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from kraft.protocol.records.compression import NONE
from kraft.protocol.records.record import Headers
from kraft.protocol.records.record_batch import increment_sequence
from kraft.rpc_client.accumulator import VALUE_OVERHEAD_BYTES, Accumulator, Batch, Delivery, PartitionQueue, record_size
from kraft.rpc_client.backoff import Backoff
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected, UnsupportedApi
from kraft.rpc_client.errors import NoBroker, not_acknowledged
from kraft.rpc_client.partition_backoff import is_worth_waiting
from kraft.rpc_client.partitioner import DefaultPartitioner, Partitioner

BATCH_BYTES = 512 * 1024
BUFFER_BYTES = 32 * 1024 * 1024
DELIVERY_SECONDS = 120.0
REQUEST_TIMEOUT_MS = 30_000
SENDS_BETWEEN_TURNS = 256
TIMESTAMP_END = 1 << 63
ALL = -1


class ProducerIdentity(Protocol):
    """The producer id and epoch under which batches are sent, and the rules that depend on them."""

    @property
    def producer(self) -> tuple[int, int]:
        """The id and epoch of new batches; (-1, -1) while there are none."""

    @property
    def transactional_id(self) -> str | None:
        """The transactional id; None if batches are not transactional."""

    @property
    def produce_version_max(self) -> int | None:
        """The highest usable version of Produce; None for no limit."""

    @property
    def failure(self) -> KraftError | None:
        """The error after which nothing more may be sent, and with which queued batches fail; else None."""

    async def prepare(self) -> None:
        """Get a producer id if there is none. Makes one attempt. Raises ApiError, and the errors of `Cluster.call`."""

    async def admit(self, partitions: Sequence[TopicPartition]) -> None:
        """Prepare sending to these partitions; called before their batches are sent. Makes one attempt. Raises as
        `prepare`."""

    def batch_failed(self, producer: tuple[int, int], problem: KraftError) -> None:
        """Handle the failure of a batch with this id and epoch, which may be stored or not."""


class Producer:
    """Sends records. Opened by `open_producer`, or part of a `TransactionalProducer`. Any number of tasks may call
    `send`."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ALL,
        codec: int = NONE,
        identity: ProducerIdentity | None = None,
        batch_bytes: int = BATCH_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        delivery_seconds: float = DELIVERY_SECONDS,
        partitioner: Partitioner | None = None,
    ) -> None:
        """`acks` is 0, 1 or ALL. An `identity` requires ALL; without one a retried batch may be stored twice.
        `delivery_seconds` limits the time from `send` to the outcome."""
        assert acks in (0, 1, ALL)
        assert acks == ALL or identity is None, "an idempotent producer needs all acks"
        self.cluster = cluster
        self._acks = acks
        self._codec = codec
        self._identity = identity
        self._delivery_seconds = delivery_seconds
        self._topic_made = partial(cluster.topic_made_lately, seconds=delivery_seconds)
        self._accumulator = Accumulator(batch_bytes, buffer_bytes)
        self._batch_bytes = batch_bytes
        chance = cluster.world.random.stream("producer")
        self._partitioner: Partitioner = DefaultPartitioner(chance) if partitioner is None else partitioner
        self._backoff = partial(Backoff, chance)
        self._look_again = self._backoff()
        self._halted = self._gave_turn = False
        self._wake = trio.Event()
        self._busy: dict[int, bool] = {}
        self._sent = 0

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> Delivery:
        """Queue a record, waiting for buffer space if necessary. `timestamp` is ms since 1970; the default is now. A
        cancelled call has queued nothing.

        Raises ApiError for a missing topic or partition, KraftError for a timestamp out of range, TypeError for a key,
        value or header that is not bytes. The `Delivery` reports later errors.
        """
        if timestamp is not None and not (isinstance(timestamp, int) and -TIMESTAMP_END <= timestamp < TIMESTAMP_END):
            raise KraftError(f"a timestamp is a number of ms of 64 bits, not {timestamp!r}")
        if self._gave_turn:  # Shielded, behind the record before.
            self._gave_turn = False
            await trio.lowlevel.checkpoint_if_cancelled()
        described = self.cluster.cached_topic(topic) or await self._topic_made(topic)
        size = record_size(key, value, headers)
        if partition is None:
            partition = self._partitioner.choose(topic, key, size, len(described.partitions))
        described.partition(partition)
        await self._accumulator.room(size)
        clock = self.cluster.world.clock
        delivery = Delivery(TopicPartition(topic, partition), clock.wall_ms() if timestamp is None else timestamp)
        begins_batch = self._accumulator.add(
            delivery.partition, delivery, key, value, headers, size, clock.now() + self._delivery_seconds
        )
        self._wake.set()
        self._sent += 1
        if begins_batch or self._sent % SENDS_BETWEEN_TURNS == 0:
            # Each time would cost more than all the rest; never, and nothing would be sent meanwhile.
            self._gave_turn = True
            await trio.lowlevel.cancel_shielded_checkpoint()
        return delivery

    async def send_values(self, topic: str, values: Sequence[bytes], *, partition: int | None = None) -> list[Delivery]:
        """Queue many values without keys and headers, waiting for buffer space if necessary. The result is as with
        `send` for each value, at a fraction of the cost. Each delivery covers some values of one partition, in order. A
        call that is cancelled while it waits for space may have queued the first values.

        Raises ApiError for a missing topic or partition, TypeError for a value that is not bytes. Deliveries report
        later errors.
        """
        self._accumulator.check(values)
        await trio.lowlevel.checkpoint_if_cancelled()
        described = self.cluster.cached_topic(topic) or await self._topic_made(topic)
        deliveries = []
        for first, end, size in _batch_bounds(values, self._batch_bytes):
            chosen = partition
            if chosen is None:
                chosen = self._partitioner.choose(topic, None, size, len(described.partitions))
            described.partition(chosen)
            await self._accumulator.room(size)
            clock = self.cluster.world.clock
            delivery = Delivery(TopicPartition(topic, chosen), clock.wall_ms(), end - first)
            deadline = clock.now() + self._delivery_seconds
            self._accumulator.add_values(delivery, values[first:end], size, deadline)
            self._wake.set()
            deliveries.append(delivery)
            await trio.lowlevel.cancel_shielded_checkpoint()
        return deliveries

    async def flush(self) -> None:
        """Wait until all records sent so far are acknowledged or have failed."""
        for delivery in self._accumulator.last_deliveries():
            await delivery.settled()

    def wake(self) -> None:
        """Check the queues again, because the identity has changed."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        async with trio.open_nursery() as sends:
            while True:
                self._expire()
                ready = {
                    queue.partition: queue
                    for queue in self._accumulator.queues.values()
                    if queue.is_waiting and not queue.is_aside
                }
                if ready and not self._halted:
                    await self._dispatch(sends, ready)
                await self._wake.wait()
                self._wake = trio.Event()

    # Choosing what to send

    async def _dispatch(self, sends: trio.Nursery, ready: Mapping[TopicPartition, PartitionQueue]) -> None:
        """Send a request to every node that has ready batches and no request in flight."""
        unled: dict[TopicPartition, ApiError] = {}
        try:
            if self._identity is not None:
                if self._identity.failure is not None:
                    self._fail(ready.values(), self._identity.failure)
                    return
                await self._identity.prepare()
            by_leader = await self.cluster.by_leader(ready, unled)
        except (Disconnected, TimeoutError, NoBroker, ApiError, UnsupportedApi, ProtocolError) as problem:
            if not isinstance(problem, TimeoutError) and not is_worth_waiting(problem):
                self._fail(self._accumulator.queues.values(), problem)
            else:
                self._halted = True  # No broker answers.
                sends.start_soon(self._pause, problem)
            return
        for partition, reason in unled.items():
            self._set_aside(sends, ready[partition], reason)
        for leader, partitions in by_leader.items():
            if not self._busy.get(leader):
                self._busy[leader] = True
                sends.start_soon(self._send, leader, [ready[partition] for partition in partitions])

    def _set_aside(self, sends: trio.Nursery, queue: PartitionQueue, problem: ApiError) -> None:
        """Handle a partition without a usable leader: wait for a leader, or fail if the error is not retriable."""
        if not is_retriable(problem.code):
            self._fail((queue,), problem)
            return
        if not any(other.is_aside for other in self._accumulator.queues.values()):
            sends.start_soon(self._pause, problem)
        queue.is_aside = True

    async def _pause(self, problem: KraftError | TimeoutError) -> None:
        """Check the queues again after a pause, independent of other sends."""
        self.cluster.forget()
        await self.cluster.world.clock.sleep(self._look_again.next())
        for queue in self._accumulator.queues.values():
            queue.is_aside = False
        self._halted = False
        self._expire(problem)
        self._wake.set()

    def _expire(self, problem: KraftError | TimeoutError | None = None) -> None:
        """Fail batches whose delivery timeout has passed."""
        now = self.cluster.world.clock.now()
        for queue in self._accumulator.queues.values():
            while queue.is_waiting and queue.batches[0].deadline <= now:
                self._finish_with_error(
                    queue, queue.batches.popleft(), not_acknowledged(self._delivery_seconds, problem)
                )

    def _fail(self, queues: Iterable[PartitionQueue], problem: KraftError) -> None:
        for queue in queues:
            while queue.is_waiting:
                self._finish_with_error(queue, queue.batches.popleft(), problem)

    # Sending

    async def _send(self, leader: int, queues: list[PartitionQueue]) -> None:
        """Send one request with one batch of each queue. A batch to be retried returns to the head of its queue."""
        topics: dict[str, TopicProduceData] = {}
        taken: list[PartitionQueue] = []
        identity = self._identity
        try:
            described = [await self.cluster.topic(queue.partition.topic) for queue in queues]
            if not any(queue.is_waiting for queue in queues):
                return
            # Last, for what waits may be of another transaction than it was before.
            if identity is not None and not await self._is_admitted(identity, queues):
                return
            producer = None if identity is None else identity.producer
            is_transactional = identity is not None and identity.transactional_id is not None
            for queue, topic in zip(queues, described, strict=True):
                if queue.is_ready(producer):
                    taken.append(queue)
                    entry = topics.setdefault(topic.name, TopicProduceData(name=topic.name, topic_id=topic.topic_id))
                    records = queue.take(producer, self._codec, is_transactional=is_transactional)
                    entry.partition_data.append(PartitionProduceData(index=queue.partition.partition, records=records))
            if taken:
                await self._exchange(leader, taken, topics)
        except (Disconnected, TimeoutError, NoBroker, ApiError, UnsupportedApi, ProtocolError) as problem:
            if isinstance(problem, ApiError | TimeoutError) or is_worth_waiting(problem):
                await self._again_later(taken, problem)
                return
            for queue in taken:
                if queue.in_flight is not None:
                    self._finish_with_error(queue, queue.in_flight, problem)
        finally:
            self._busy[leader] = False
            self._wake.set()

    async def _is_admitted(self, identity: ProducerIdentity, queues: list[PartitionQueue]) -> bool:
        """Whether the batches may be sent. An error that is not retriable fails them. Raises retriable errors."""
        try:
            await identity.admit([queue.partition for queue in queues])
        except ApiError as problem:
            if is_retriable(problem.code):
                raise
            self._fail(queues, problem)
            return False
        return True

    async def _exchange(
        self, leader: int, queues: list[PartitionQueue], topics: Mapping[str, TopicProduceData]
    ) -> None:
        identity = self._identity
        request = ProduceRequest(
            transactional_id=None if identity is None else identity.transactional_id,
            acks=self._acks,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=list(topics.values()),
        )
        version = None
        if identity is not None and identity.produce_version_max is not None:
            served = await self.cluster.version_of(request.API_KEY, node_id=leader)
            version = min(served, identity.produce_version_max)
        if self._acks == 0:
            await self.cluster.send_only(request, node_id=leader)
            for queue in queues:
                self._finish(queue, -1, -1)
            return
        left = (
            max(queue.in_flight.deadline for queue in queues if queue.in_flight is not None)
            - self.cluster.world.clock.now()
        )
        if left <= 0:
            raise TimeoutError("no time was left to send it")
        response: ProduceResponse = await self.cluster.call(
            request, node_id=leader, version=version, seconds=min(self.cluster.request_seconds, left)
        )
        names = {entry.topic_id: entry.name for entry in topics.values()}
        results = [
            (topic.name or names.get(bytes(topic.topic_id), ""), each)
            for topic in response.responses
            for each in topic.partition_responses
        ]
        answers = {TopicPartition(name, each.index): each for name, each in results}
        problems = {
            queue.partition: problem
            for queue in queues
            if (problem := self._take_answer(queue, answers.get(queue.partition))) is not None
        }
        if problems:
            await self._again_later(
                [queue for queue in queues if queue.partition in problems], next(iter(problems.values()))
            )

    def _take_answer(self, queue: PartitionQueue, answer: PartitionProduceResponse | None) -> ApiError | None:
        """Apply the response for one partition. Returns the error if the batch has to be retried."""
        batch = queue.in_flight
        assert batch is not None
        if answer is None:
            self._finish_with_error(
                queue,
                batch,
                Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(queue.partition), "the broker's answer leaves it out"),
            )
            return None
        code = answer.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._look_again = self._backoff()
            self._finish(queue, answer.base_offset, answer.log_append_time_ms)
            return None
        problem = Refused(code, str(queue.partition), answer.error_message)
        if is_retriable(code):
            return problem
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            queue.in_flight = None  # The batch is, not the records.
            queue.batches.extendleft(reversed(batch.halves()))
            return None
        self._finish_with_error(queue, batch, problem)
        return None

    async def _again_later(self, queues: list[PartitionQueue], problem: KraftError | TimeoutError) -> None:
        """Return the batches to the head of their queues after a pause, if they have time left."""
        self.cluster.forget()
        await self.cluster.world.clock.sleep(self._backoff().next())
        for queue in queues:
            if queue.in_flight is not None:
                queue.batches.appendleft(queue.in_flight)
                queue.in_flight = None
        self._expire(problem)

    def _finish(self, queue: PartitionQueue, base_offset: int, log_append_time_ms: int) -> None:
        batch = queue.in_flight
        assert batch is not None
        if (batch.producer_id, batch.epoch) == (queue.producer_id, queue.producer_epoch):
            queue.next_sequence = increment_sequence(batch.sequence, batch.count)
        batch.succeed(base_offset, log_append_time_ms)
        self._done(queue, batch)

    def _finish_with_error(self, queue: PartitionQueue, batch: Batch, problem: KraftError) -> None:
        if self._identity is not None:
            self._identity.batch_failed((batch.producer_id, batch.epoch), problem)
        batch.fail(problem)
        self._done(queue, batch)

    def _done(self, queue: PartitionQueue, batch: Batch) -> None:
        if queue.in_flight is batch:
            queue.in_flight = None
        self._accumulator.release(batch)


def _batch_bounds(values: Sequence[bytes], batch_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Yield the start, end and bytes of each batch of the values. A value too large for a batch gets its own."""
    first = size = 0
    for index, value in enumerate(values):
        needed = len(value) + VALUE_OVERHEAD_BYTES
        if size + needed > batch_bytes and index > first:
            yield first, index, size
            first, size = index, 0
        size += needed
    if size:
        yield first, len(values), size


@asynccontextmanager
async def open_producer(
    cluster: Cluster,
    *,
    acks: int = ALL,
    codec: int = NONE,
    idempotent: bool = True,
    batch_bytes: int = BATCH_BYTES,
    delivery_seconds: float = DELIVERY_SECONDS,
    partitioner: Partitioner | None = None,
) -> AsyncIterator[Producer]:
    """Open a producer. When the block ends without an exception, all its records are acknowledged or have failed. With
    `idempotent`, which requires acks=ALL, a retried record is stored once. The default `partitioner` is Kafka's."""
    producer = Producer(
        cluster,
        acks=acks,
        codec=codec,
        identity=FreshProducerId(cluster) if idempotent else None,
        batch_bytes=batch_bytes,
        delivery_seconds=delivery_seconds,
        partitioner=partitioner,
    )
    async with running(producer):
        yield producer
        await producer.flush()


@asynccontextmanager
async def running(producer: Producer) -> AsyncIterator[None]:
    """Run the producer's send task while the block runs."""
    failure: Exception | None = None
    async with trio.open_nursery() as producer_nursery:
        producer_nursery.start_soon(producer.run)
        try:
            yield
        except Exception as problem:  # noqa: BLE001 - raised below, outside the nursery, which would wrap it in a group.
            failure = problem
        producer_nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class FreshProducerId:
    """A new producer id, replaced by another new one after a batch of it failed (KIP-98)."""

    transactional_id: str | None = None
    produce_version_max: int | None = None
    failure: KraftError | None = None

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.producer = (-1, -1)

    async def prepare(self) -> None:
        if self.producer[0] < 0:
            self.producer = await new_producer_id(self._cluster)

    async def admit(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: batches outside transactions need no registration."""

    def batch_failed(self, producer: tuple[int, int], problem: KraftError) -> None:
        if producer == self.producer:
            self.producer = (-1, -1)


TRANSACTION_TIMEOUT_MS = 30_000
"""The transaction timeout in InitProducerId. Without a transactional id it has no effect, but must be positive."""


async def new_producer_id(cluster: Cluster) -> tuple[int, int]:
    """Get a new producer id and its first epoch (KIP-98). Makes one attempt. Raises ApiError, and the errors of
    `Cluster.call`."""
    response = await cluster.call(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    )
    check(response.error_code, "a producer id")
    return response.producer_id, response.producer_epoch
