"""Transactional producers of a simulated run, which use the product's own client. Each owns a transactional id, writes
to several partitions and commits the offset of a group. Some transactions are aborted. Some are left open by a producer
that is replaced under its id and later returns as a zombie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from jepsen.checker.operations import FAIL, INFO, OK, Commit, Partition, Send, Transaction
from jepsen.simulation.recorder import Recorder
from kraft.admin import features
from kraft.common.errors import ApiError, KraftError
from kraft.common.features import TRANSACTION_VERSION
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kraft.rpc_client.accumulator import Delivery
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.producer import Producer, running
from kraft.rpc_client.transactions import TransactionalIdentity
from kraft.world.ports import World

CONNECT_SECONDS: Final = 2.0
REQUEST_SECONDS: Final = 5.0
OPERATION_SECONDS: Final = 10.0
TRANSACTION_SECONDS: Final = 15.0
RECORDS_MAX: Final = 6
OFFSET_RATE: Final = 0.5
COMMIT_UP_TO: Final = 0.7
ABORT_UP_TO: Final = 0.85
"""A random number up to COMMIT_UP_TO commits a transaction, one up to ABORT_UP_TO aborts it, and a larger one leaves it
open."""
PAUSE_SECONDS_MAX: Final = 0.4

PASSING: Final = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors for a producer whose transaction exceeded its timeout, or that was replaced."""


def cluster_of(world: World, hosts: Sequence[str], port: int, name: str) -> Cluster:
    return Cluster(
        world,
        [(host, port) for host in hosts],
        client_id=name,
        connect_seconds=CONNECT_SECONDS,
        request_seconds=REQUEST_SECONDS,
        operation_seconds=OPERATION_SECONDS,
    )


ATTEMPTS_UNTOLD: Final = 2
"""The client retries without reporting it: the acknowledging leader may be a later one than the appending leader."""


class _Sent:
    """A transaction in the history: its records, and the offset that is committed with it."""

    def __init__(self, recorder: Recorder, transaction: Transaction) -> None:
        self._recorder = recorder
        self.transaction = recorder.add(transaction)
        self.records: list[tuple[Send, Delivery | None]] = []
        self.commit: Commit | None = None

    def settle(self, outcome: str, error: str = "") -> None:
        now = self._recorder.now()
        operations = [self.transaction, *(send for send, _ in self.records)]
        for each in (*operations, *(() if self.commit is None else (self.commit,))):
            each.outcome, each.ended, each.error = outcome, now, error
        for send, delivery in self.records:
            if delivery is not None:
                send.offset = delivery.offset


class Transactor:
    """Owner of one transactional id and of the group whose offsets its transactions commit."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: Recorder,
        places: Sequence[Partition],
        group: str,
        source: Partition,
    ) -> None:
        """`source` is the partition whose offset the group commits: the number of the transaction."""
        self.name = cluster.client_id
        self._cluster = cluster
        self._recorder = recorder
        self._places = tuple(places)
        self._group = group
        self._source = source
        self._chance = cluster.world.random.stream(f"transactor {self.name}")
        self._count = 0
        self._serial = 0
        self._left: tuple[TransactionalIdentity, _Sent] | None = None
        """A transaction left open for the next producer of the id."""
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            try:
                await self._live()
            except (KraftError, TimeoutError) as problem:
                self._judge(problem)
            await self._pause()
        self._cluster.close()

    async def end_what_is_open(self) -> None:
        """Abort a transaction that an earlier producer of the id left open, and wait for its markers. Raises
        KraftError."""
        await TransactionalIdentity(self._cluster, self.name, TRANSACTION_SECONDS).initialize()

    async def _live(self) -> None:
        """Run one producer until it fails or leaves a transaction open."""
        identity = TransactionalIdentity(self._cluster, self.name, TRANSACTION_SECONDS)
        await identity.initialize()
        if self._chance.random() < 0.5:
            await self._haunt()
        producer = self._producer(identity)
        async with running(producer):
            while not self.stopping.is_set() and await self._transact(producer, identity):
                await self._pause()

    def _producer(self, identity: TransactionalIdentity) -> Producer:
        return Producer(self._cluster, identity=identity, delivery_seconds=OPERATION_SECONDS)

    async def _transact(self, producer: Producer, identity: TransactionalIdentity) -> bool:
        """Run one transaction. Returns whether the producer may continue. Raises the errors of `begin`."""
        await identity.begin()
        self._serial += 1
        sent = _Sent(
            self._recorder,
            Transaction(process=self.name, began=self._recorder.now(), transactional_id=self.name, group=self._group),
        )
        fate = self._chance.random()
        try:
            for _ in range(self._chance.randint(1, RECORDS_MAX)):
                await self._send(producer, sent)
                if self._chance.random() < 0.3:
                    await self._pause()
            if self._chance.random() < OFFSET_RATE:
                await self._move_offset(identity, sent)
            await self._haunt()
            if fate < COMMIT_UP_TO or self._chance.random() < 0.5:
                await producer.flush()
        except KraftError as problem:
            identity.fail(problem)
        if identity.failure is None and fate < COMMIT_UP_TO:
            return await self._commit(identity, sent)
        self._judge(identity.failure)
        sent.settle(FAIL, "aborted")
        if identity.failure is None and fate >= ABORT_UP_TO:
            self._left = identity, sent
            return False
        identity.fail(KraftError("the transaction was aborted"))
        producer.wake()
        await producer.flush()
        if identity.is_begun:
            await identity.end(is_commit=False)
        return True

    async def _commit(self, identity: TransactionalIdentity, sent: _Sent) -> bool:
        sent.transaction.asked = self._recorder.now()
        try:
            await identity.end(is_commit=True)
        except (KraftError, TimeoutError) as problem:
            self._judge(problem)
            sent.settle(INFO, str(problem))
            return False
        sent.settle(OK)
        return True

    async def _send(self, producer: Producer, sent: _Sent) -> None:
        topic, partition = self._chance.choice(self._places)
        value = f"{self.name}:{self._count}"
        self._count += 1
        send = self._recorder.add(
            Send(
                process=self.name,
                began=self._recorder.now(),
                topic=topic,
                partition=partition,
                values=[value],
                attempts=ATTEMPTS_UNTOLD,
            )
        )
        sent.transaction.values.append(value)
        sent.records.append((send, None))
        sent.records[-1] = (send, await producer.send(topic, value.encode(), value.encode(), partition=partition))

    async def _move_offset(self, identity: TransactionalIdentity, sent: _Sent) -> None:
        topic, partition = self._source
        sent.transaction.offset = self._serial
        sent.commit = self._recorder.add(
            Commit(
                process=self.name,
                began=self._recorder.now(),
                topic=topic,
                partition=partition,
                group=self._group,
                offset=self._serial,
            )
        )
        part = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=self._serial, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            group_id=self._group, topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[part])]
        )
        await identity.add_offsets(request)

    async def _haunt(self) -> None:
        """Let a replaced producer, if there is one, continue its open transaction, before or during the next producer's
        first transaction. Nothing that it does may have an effect."""
        if self._left is None:
            return
        (identity, sent), self._left = self._left, None
        if self._chance.random() < 0.5:
            producer = self._producer(identity)
            async with running(producer):
                await self._send(producer, sent)
                await producer.flush()
            sent.settle(FAIL, "of a producer that was replaced")
        try:
            await identity.end(is_commit=True)
        except (KraftError, TimeoutError) as problem:
            self._judge(problem)
        else:
            self._recorder.unexpected(self.name, "a producer that was replaced committed its transaction")

    def _judge(self, problem: BaseException | None) -> None:
        if isinstance(problem, ApiError) and problem.code not in PASSING:
            self._recorder.unexpected(self.name, f"a transaction met {name_of(problem.code)}: {problem}")

    async def _pause(self) -> None:
        await self._cluster.world.clock.sleep(self._chance.uniform(0.0, PAUSE_SECONDS_MAX))


class FeatureRaiser:
    """Raises the feature transaction.version once while transactions are under way."""

    def __init__(self, cluster: Cluster, after_seconds: float, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now
        self.raised: float | None = None
        """Time when the feature was raised."""
        self._after_seconds = after_seconds
        self.stopping = trio.Event()

    async def run(self) -> None:
        with self._cluster.world.clock.move_on_after(self._after_seconds):
            await self.stopping.wait()
        while not self.stopping.is_set():
            try:
                await set_level(self._cluster, 2, features.UPGRADE)
                self.raised = self._now()
                return
            except (KraftError, TimeoutError):
                await self._cluster.world.clock.sleep(1.0)


async def set_level(cluster: Cluster, level: int, upgrade_type: int) -> None:
    """Set the level of transaction.version. Raises the errors of `update_features`."""
    await features.update_features(cluster, {TRANSACTION_VERSION: level}, upgrade_type)
    cluster.close()
