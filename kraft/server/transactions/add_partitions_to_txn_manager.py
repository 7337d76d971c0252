"""Requests to transaction coordinators to verify that partitions belong to a transaction, or to add them (KIP-890):
implements `kraft.coordinator.transaction.transaction_partitions.TransactionPartitions`.

If this broker is the coordinator, the request is a function call. Otherwise one request to a coordinator is sent at a
time; verifications that arrive meanwhile are batched into the next one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import trio

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.handlers.errors import code_of
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kraft.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from kraft.rpc_client.connection import Disconnected, UnsupportedApi
from kraft.server.broker_channel import BrokerChannel

TRANSACTIONS_A_REQUEST = 200
"""Limit of transactions in a request. Others wait for the next one to the same coordinator."""

PartitionCodes = dict[tuple[str, int], int]
Ask = Callable[[AddPartitionsToTxnRequest], Awaitable[Any]]
"""Sends a request of version 4 or later to a coordinator. Returns its AddPartitionsToTxnResponse."""


class _Question:
    """The verification of one producer's partitions. After `answered`, `codes` has the partitions that were
    rejected."""

    __slots__ = ("answered", "codes", "transaction")

    def __init__(self, transaction: AddPartitionsToTxnTransaction) -> None:
        self.transaction = transaction
        self.answered = trio.Event()
        self.codes: PartitionCodes = {}

    def answer(self, codes: PartitionCodes) -> None:
        self.codes = codes
        self.answered.set()

    def answer_all(self, code: int) -> None:
        """Fail the verification of all partitions with `code`."""
        self.answer({(topic.name, index): code for topic in self.transaction.topics for index in topic.partitions})


class AddPartitionsToTxnManager:
    """Sends verifications to transaction coordinators. Owned by the broker's loop. `coordinator_of` returns the broker
    that coordinates a transactional id, None while there is none. `ask_here` calls the coordinator of this broker;
    `confirms_here` does so without waiting."""

    def __init__(
        self,
        node_id: int,
        ask_here: Ask,
        confirms_here: Callable[[str, int, int, Sequence[TopicPartition]], bool],
        coordinator_of: Callable[[str], int | None],
        channel: BrokerChannel,
        is_required: Callable[[], bool],
    ) -> None:
        self._is_required = is_required
        self._node_id = node_id
        self._ask_here = ask_here
        self._confirms_here = confirms_here
        self._coordinator_of = coordinator_of
        self._channel = channel
        self._waiting: dict[int, list[_Question]] = {}
        """Queued transactions by coordinator, while a task sends to it."""
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with trio.open_nursery() as sending_nursery:
                self._nursery = sending_nursery
                try:
                    await trio.sleep_forever()
                finally:
                    self._nursery = None
        finally:
            self._channel.close()

    @property
    def is_required(self) -> bool:
        """See the port."""
        return self._is_required()

    def confirms(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> bool:
        """See the port."""
        if self._coordinator_of(transactional_id) != self._node_id:
            return False
        places = [TopicPartition(name, index) for name, index in partitions]
        return self._confirms_here(transactional_id, producer_id, producer_epoch, places)

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
    ) -> Mapping[tuple[str, int], int]:
        """See the port."""
        question = _Question(_transaction(transactional_id, producer_id, producer_epoch, partitions, add))
        coordinator = self._coordinator_of(transactional_id)
        if coordinator is None or self._nursery is None:
            question.answer_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif coordinator == self._node_id:
            await _put([question], self._ask_here)
        else:
            if coordinator in self._waiting:
                self._waiting[coordinator].append(question)
            else:
                self._waiting[coordinator] = [question]
                self._nursery.start_soon(self._send_to, coordinator)
            await question.answered.wait()
        return question.codes

    async def _send_to(self, coordinator: int) -> None:
        """Send the verifications that wait for one coordinator, until there are none."""

        async def ask(request: AddPartitionsToTxnRequest) -> Any:
            return await self._channel.send(coordinator, request)

        waiting = self._waiting[coordinator]
        try:
            while waiting:
                await _put(_take_next(waiting), ask)
        finally:
            del self._waiting[coordinator]
            for question in waiting:  # We are cancelled: the broker ends.
                question.answer_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _transaction(
    transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]], add: bool
) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in partitions:
        if name not in topics:
            topics[name] = AddPartitionsToTxnTopic(name=name, partitions=[])
        topics[name].partitions.append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=not add,
        topics=list(topics.values()),
    )


def _take_next(waiting: list[_Question]) -> list[_Question]:
    """Take the verifications of the next request. A request may name a transactional id only once; a second one of the
    same id waits for the request after."""
    taken: dict[str, _Question] = {}
    left: list[_Question] = []
    for question in waiting:
        transactional_id = question.transaction.transactional_id
        if transactional_id in taken or len(taken) >= TRANSACTIONS_A_REQUEST:
            left.append(question)
        else:
            taken[transactional_id] = question
    waiting[:] = left
    return list(taken.values())


async def _put(questions: list[_Question], ask: Ask) -> None:
    """Send verifications to their coordinator in one request, and complete each."""
    code: int = ErrorCode.NETWORK_EXCEPTION
    try:
        response = await ask(AddPartitionsToTxnRequest(transactions=[question.transaction for question in questions]))
        code = response.error_code
        if code == ErrorCode.NONE:
            _answer_each(questions, response)
            return
    except (Disconnected, TimeoutError):
        pass
    except UnsupportedApi:  # A broker of an earlier release coordinates no transactions.
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    except KraftError as problem:
        code = code_of(problem)
    except BaseException:
        for question in questions:
            question.answer_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        raise
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        code = ErrorCode.INVALID_TXN_STATE  # It is the broker that was refused, no fault of the client's.
    for question in questions:
        question.answer_all(code)


def _answer_each(questions: list[_Question], response: AddPartitionsToTxnResponse) -> None:
    """Complete each verification. A partition that is missing in the response is not verified."""
    results: dict[tuple[str, str, int], int] = {
        (result.transactional_id, topic.name, partition.partition_index): partition.partition_error_code
        for result in response.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    for question in questions:
        transactional_id = question.transaction.transactional_id
        codes: PartitionCodes = {}
        for topic in question.transaction.topics:
            for index in topic.partitions:
                code = results.get((transactional_id, topic.name, index), ErrorCode.UNKNOWN_SERVER_ERROR)
                if code != ErrorCode.NONE:
                    codes[topic.name, index] = code
        question.answer(codes)
