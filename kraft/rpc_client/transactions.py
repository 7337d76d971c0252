"""Transactions: records in many partitions, and offsets of a group, that readers of committed records see all together
or not at all (KIP-98, KIP-447, KIP-890).

    async with open_transactional_producer(cluster, "orders") as producer:
        async with producer.transaction() as transaction:
            await transaction.send("paid", b"...")

The transaction commits when the block ends. If the block raises, it aborts, and the exception propagates. Opening
another producer with the same transactional id fences the previous one: its open transaction is aborted, and it can
send nothing more.

With feature transaction.version 2, a cluster adds a partition to the transaction when its first batch arrives, and
gives every transaction its own epoch. In older clusters each partition is added by a request first, and a new epoch is
requested after an abort, so that no late batch joins the next transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.admin.errors import UNKNOWN_TOPIC, check
from kraft.admin.transport import COORDINATOR_OF_TRANSACTION
from kraft.common.errors import ApiError, KraftError
from kraft.common.features import TRANSACTION_VERSION
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.end_txn_response import EndTxnResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kraft.protocol.records.compression import NONE
from kraft.protocol.records.record import Headers
from kraft.rpc_client.accumulator import Delivery
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.group_consumer import NOTHING_UNREAD, GroupConsumer
from kraft.rpc_client.producer import BATCH_BYTES, BUFFER_BYTES, DELIVERY_SECONDS, Producer, running

TRANSACTION_SECONDS = 60.0
ABORT_SECONDS_MAX = 10.0
"""How long an abort is tried while its task is cancelled. The coordinator aborts by itself when the transaction's time
is over."""
EPOCH_EACH_LEVEL = 2
"""The level of transaction.version from which on each transaction has an epoch of its own."""

INIT_PRODUCER_ID_VERSION_MAX = 5
"""The highest version used. The next one adds two-phase commit (KIP-939)."""
ADD_PARTITIONS_VERSION_MAX = 3
"""The highest version for clients. Later versions are for brokers."""
PRODUCE_VERSION_MAX, END_TXN_VERSION_MAX, OFFSET_COMMIT_VERSION_MAX = 11, 4, 4
"""The highest versions in a cluster below EPOCH_EACH_LEVEL. In later versions a Produce or TxnOffsetCommit adds its
partition to the transaction, and EndTxn raises the epoch."""
NAMED_TOPICS_VERSION = 5
"""The last version of TxnOffsetCommit that names topics; later ones identify them by id (KIP-1319)."""


class TransactionalIdentity:
    """A `ProducerIdentity`: transactional id, producer id and epoch, and the open transaction's state."""

    def __init__(self, cluster: Cluster, transactional_id: str, transaction_seconds: float) -> None:
        self.transactional_id = transactional_id
        self.producer = (-1, -1)
        self.failure: KraftError | None = None
        """The reason why the open transaction cannot be committed."""
        self.is_begun = False
        """Whether a request of the transaction was sent, so that the coordinator may have started it."""
        self._cluster = cluster
        self._timeout_ms = int(transaction_seconds * 1000)
        self._epoch_each = True
        self._partitions: set[TopicPartition] = set()

    @property
    def produce_version_max(self) -> int | None:
        return None if self._epoch_each else PRODUCE_VERSION_MAX

    async def prepare(self) -> None:
        assert self.producer[0] >= 0, "nothing is sent outside of transactions"

    async def initialize(self) -> None:
        """Get a producer id, or a new epoch for the current one. Fences the previous producer and aborts its
        transaction. Raises ApiError, DeadlinePassed."""
        producer_id, epoch = self.producer
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

        async def attempt() -> None:
            answer: InitProducerIdResponse = await self._ask(request, INIT_PRODUCER_ID_VERSION_MAX)
            self._check(answer.error_code)
            self.producer = (answer.producer_id, answer.producer_epoch)

        await self._cluster.retrying(attempt)

    async def begin(self) -> None:
        """Start a transaction. Raises ApiError, DeadlinePassed."""
        features = await self._cluster.retrying(self._cluster.features)
        epoch_each = features.get(TRANSACTION_VERSION, 0) >= EPOCH_EACH_LEVEL
        if epoch_each and not self._epoch_each:
            # The feature was raised. The last transaction did not raise the epoch. In partitions that lack its markers,
            # records in that epoch would join it: at this feature level such records are not verified.
            await self.initialize()
        self._epoch_each = epoch_each
        self._partitions = set()
        self.failure, self.is_begun = None, False

    async def admit(self, partitions: Sequence[TopicPartition]) -> None:
        while True:
            self.is_begun = True
            joined = self._partitions
            fresh = sorted({*partitions} - joined)
            if self._epoch_each or not fresh:
                return
            await self._join(fresh)
            joined.update(fresh)  # Another transaction may have begun meanwhile, which they have not joined.

    async def _join(self, fresh: Sequence[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for partition in fresh:
            topics.setdefault(partition.topic, []).append(partition.partition)
        producer_id, epoch = self.producer
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
            ],
        )
        answer = await self._ask(request, ADD_PARTITIONS_VERSION_MAX)
        for topic in answer.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                self._check(each.partition_error_code, f", {topic.name}-{each.partition_index}")

    def batch_failed(self, producer: tuple[int, int], problem: KraftError) -> None:
        self.fail(problem)

    def fail(self, problem: KraftError) -> None:
        """Mark the open transaction so that it can only be aborted. The first reason is kept."""
        if self.failure is None:
            self.failure = problem

    async def add_offsets(self, request: TxnOffsetCommitRequest) -> None:
        """Add the group's offsets to the transaction. Raises ApiError, DeadlinePassed."""
        self.is_begun = True
        request.transactional_id = self.transactional_id
        request.producer_id, request.producer_epoch = self.producer
        if not self._epoch_each:
            await self._cluster.retrying(lambda: self._add_group(request.group_id))
        version_max = NAMED_TOPICS_VERSION if self._epoch_each else OFFSET_COMMIT_VERSION_MAX

        async def attempt() -> None:
            coordinator = await self._cluster.coordinator(request.group_id)
            answer = await self._call(coordinator, request, version_max)
            for topic in answer.topics:
                for each in topic.partitions:
                    check(each.error_code, f"group {request.group_id}, {topic.name}-{each.partition_index}")

        await self._cluster.retrying(attempt, final=UNKNOWN_TOPIC)

    async def _add_group(self, group_id: str) -> None:
        producer_id, epoch = self.producer
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=group_id
        )
        self._check((await self._ask(request)).error_code, f", group {group_id}")

    async def end(self, *, is_commit: bool) -> None:
        """Commit or abort. Raises ApiError, DeadlinePassed: the outcome is then unknown, unless the error code
        determines it."""
        producer_id, epoch = self.producer
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=is_commit
        )

        async def attempt() -> None:
            answer: EndTxnResponse = await self._ask(request, None if self._epoch_each else END_TXN_VERSION_MAX)
            self._check(answer.error_code)
            if self._epoch_each and answer.producer_id >= 0:
                self.producer = (answer.producer_id, answer.producer_epoch)

        try:
            await self._cluster.retrying(attempt)
        except ApiError as problem:
            # Nothing of it had reached the coordinator yet, which here it must have for an abort.
            if is_commit or self._epoch_each or problem.code != ErrorCode.INVALID_TXN_STATE:
                raise
        if not is_commit and not self._epoch_each:
            await self.initialize()

    async def _ask(self, request: Any, version_max: int | None = None) -> Any:
        """Make one attempt at the coordinator. Raises as `Cluster.call`."""
        coordinator = await self._cluster.coordinator(self.transactional_id, COORDINATOR_OF_TRANSACTION)
        return await self._call(coordinator, request, version_max)

    async def _call(self, node_id: int, request: Any, version_max: int | None) -> Any:
        version = None
        if version_max is not None:
            version = min(version_max, await self._cluster.version_of(request.API_KEY, node_id=node_id))
        return await self._cluster.call(request, node_id=node_id, version=version)

    def _check(self, code: int, what: str = "") -> None:
        check(code, f"transactional id {self.transactional_id}{what}")


class Transaction:
    """An open transaction, from `TransactionalProducer.transaction`. It cannot be used after its block."""

    def __init__(self, producer: Producer, identity: TransactionalIdentity) -> None:
        self._producer = producer
        self._identity = identity
        self._is_open = True
        self._consumers: list[GroupConsumer] = []

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
        """Send as `Producer.send` does. A failed record fails the transaction, so the caller need not wait for each
        delivery. Also raises the error that prevents the transaction from committing."""
        self._check()
        return await self._producer.send(topic, value, key, partition=partition, headers=headers, timestamp=timestamp)

    async def send_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        epochs: Mapping[TopicPartition, int] | None = None,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> None:
        """Commit positions of a group with the transaction. `epochs` is as in `commit_offsets`. With a generation and
        member id, the commit succeeds only while the group has that member. Raises ApiError, DeadlinePassed; the
        transaction cannot be committed then."""
        self._check()
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for partition, offset in sorted(offsets.items()):
            topics.setdefault(partition.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=offset,
                    committed_leader_epoch=(epochs or {}).get(partition, -1),
                    committed_metadata="",
                )
            )
        request = TxnOffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=entries) for name, entries in topics.items()],
        )
        try:
            await self._identity.add_offsets(request)
        except KraftError as problem:
            self._identity.fail(problem)
            raise

    async def commit_positions(
        self, consumer: GroupConsumer, unread: Mapping[TopicPartition, int] = NOTHING_UNREAD
    ) -> None:
        """Commit the positions of `consumer` (opened with `commits=False`) with the transaction, but for the records
        from `unread` on (see `GroupConsumer.processed`). If the transaction is aborted, the consumer returns to its
        committed offsets at its next poll. Raises as `send_offsets`."""
        member = consumer.membership
        self._consumers.append(consumer)
        positions, epochs = consumer.processed(unread)
        try:
            await self.send_offsets(
                member.group_id,
                positions,
                epochs=epochs,
                generation=member.generation,
                member_id=member.member_id,
                instance_id=member.instance_id,
            )
        except ApiError as problem:
            if problem.code in member.join_again:
                member.must_join = True
            raise

    def close(self, *, is_aborted: bool = False) -> None:
        self._is_open = False
        if is_aborted:
            for consumer in self._consumers:
                consumer.rewind()

    def _check(self) -> None:
        if not self._is_open:
            raise KraftError("the transaction has ended: send within the block that it was given for")
        if self._identity.failure is not None:
            raise self._identity.failure


class TransactionalProducer:
    """A producer opened by `open_transactional_producer`. One transaction is open at a time, in which any number of
    tasks may send."""

    def __init__(self, producer: Producer, identity: TransactionalIdentity) -> None:
        self._producer = producer
        self._identity = identity
        self._is_in_transaction = False
        self._dead: KraftError | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open a transaction. It commits when the block ends, and aborts when the block raises.

        Raises ApiError or DeadlinePassed if the transaction was not committed. If it could be aborted, the next one may
        start. After PRODUCER_FENCED and similar errors, and after a commit with unknown outcome, this producer cannot
        be used any more. Open another one, which first ends the transaction of this one.
        """
        if self._dead is not None:
            raise self._dead
        if self._is_in_transaction:
            raise KraftError(f"transactional id {self._identity.transactional_id}: a transaction is open already")
        self._is_in_transaction = True
        try:
            await self._identity.begin()
        except BaseException:
            self._is_in_transaction = False
            raise
        transaction = Transaction(self._producer, self._identity)
        try:
            yield transaction
            transaction.close()
            await self._commit()
        except BaseException as problem:
            transaction.close(is_aborted=True)
            if self._dead is None:
                with trio.CancelScope(shield=True):
                    await self._abort(problem)
            raise
        finally:
            self._is_in_transaction = False

    async def _commit(self) -> None:
        await self._producer.flush()
        if self._identity.failure is not None:
            raise self._identity.failure
        if not self._identity.is_begun:
            return
        try:
            await self._identity.end(is_commit=True)
        except ApiError as problem:
            if problem.code != ErrorCode.TRANSACTION_ABORTABLE:
                self._dead = problem
            raise
        except BaseException:
            self._dead = self._undecided()
            raise

    async def _abort(self, cause: BaseException) -> None:
        """Abort the transaction. Queued batches are dropped; batches in flight are awaited. Never raises: the exception
        in progress gives the reason, and if the abort fails, the next transaction reports that."""
        identity = self._identity
        identity.fail(cause if isinstance(cause, KraftError) else KraftError("the transaction was aborted"))
        self._producer.wake()
        ended = False
        with self._producer.cluster.world.clock.move_on_after(
            self._producer.cluster.operation_seconds if isinstance(cause, Exception) else ABORT_SECONDS_MAX
        ):
            await self._producer.flush()
            try:
                if identity.is_begun:
                    await identity.end(is_commit=False)
                ended = True
            except KraftError as problem:
                self._dead = problem
        if not ended and self._dead is None:
            self._dead = self._undecided()

    def _undecided(self) -> KraftError:
        return KraftError(
            f"transactional id {self._identity.transactional_id}: the outcome of the last transaction is not known; "
            "open another producer of this id"
        )


@asynccontextmanager
async def open_transactional_producer(
    cluster: Cluster,
    transactional_id: str,
    *,
    codec: int = NONE,
    transaction_seconds: float = TRANSACTION_SECONDS,
    batch_bytes: int = BATCH_BYTES,
    buffer_bytes: int = BUFFER_BYTES,
    delivery_seconds: float = DELIVERY_SECONDS,
) -> AsyncIterator[TransactionalProducer]:
    """Open a producer that fences earlier ones with the same transactional id. The cluster aborts a transaction that is
    open for longer than `transaction_seconds`. Raises ApiError, DeadlinePassed."""
    identity = TransactionalIdentity(cluster, transactional_id, transaction_seconds)
    await identity.initialize()
    producer = Producer(
        cluster,
        codec=codec,
        identity=identity,
        batch_bytes=batch_bytes,
        buffer_bytes=buffer_bytes,
        delivery_seconds=delivery_seconds,
    )
    async with running(producer):
        yield TransactionalProducer(producer, identity)
