"""Transactions: list open ones, and end hanging ones (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kraft.admin.errors import check
from kraft.admin.transport import COORDINATOR_OF_TRANSACTION, AdminTransport
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse, ProducerState
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kraft.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

PARTITIONS_PER_REQUEST: Final = 500
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a transaction of two-phase commit (KIP-939): its coordinator never aborts it."""
FENCING_TIMEOUT_MS_MAX: Final = 60_000
"""Longest timeout in the request that fences a producer. Brokers reject one above transaction.max.timeout.ms."""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of a transactional id. `started_ms` is None if no transaction is open. `is_two_phase`: an outside
    coordinator ends the transaction, it has no timeout (KIP-939)."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in one partition. `transactional_id` is the producer's, None if no coordinator has it.
    `coordinated` is the coordinator's transaction with this partition; None if the transaction hangs, that is, no
    coordinator will ever end it."""

    place: TopicPartition
    producer: ProducerState
    transactional_id: str | None = None
    coordinated: Transaction | None = None


async def list_transactions(
    port: AdminTransport,
    states: Sequence[str] = (),
    open_for_ms: int = -1,
    pattern: str | None = None,
    *,
    partial: bool = False,
) -> list[ListedTransaction]:
    """The transactions of every live broker, in order of broker id. They are filtered by `states` (empty: any), by the
    time for which they have been open (-1: any) and by the regular expression `pattern` (RE2). With `partial`, brokers
    that do not answer are left out. Raises Refused, and UnsupportedApi for a pattern that brokers do not support."""
    request = ListTransactionsRequest(
        state_filters=list(states), duration_filter=open_for_ms, transactional_id_pattern=pattern
    )

    async def ask(broker: int) -> list[ListedTransaction]:
        response = await port.ask(request, ListTransactionsResponse, node_id=broker)
        check(response.error_code, f"transactions of broker {broker}")
        return [
            ListedTransaction(each.transactional_id, broker, each.producer_id, each.transaction_state)
            for each in response.transaction_states
        ]

    async def attempt() -> list[ListedTransaction]:
        brokers = await port.broker_ids()
        told = await (port.ask_brokers(ask, brokers) if partial else port.of_each(ask, brokers))
        return sorted((each for of_one in told for each in of_one), key=lambda each: each.transactional_id)

    return await port.retrying(attempt)


async def describe_transaction(port: AdminTransport, transactional_id: str) -> Transaction:
    """The state of one transactional id. Raises Refused, TRANSACTIONAL_ID_NOT_FOUND if it does not exist."""

    async def attempt() -> Transaction:
        coordinator = await port.coordinator(transactional_id, COORDINATOR_OF_TRANSACTION)
        [described] = await _described(port, [transactional_id], coordinator)
        check(described.error_code, f"transactional id {transactional_id}")
        return _transaction(described, coordinator)

    return await port.retrying(attempt)


async def describe_transactions(
    port: AdminTransport, transactional_ids: Sequence[str], coordinator: int
) -> list[Transaction]:
    """The states of transactional ids of one coordinator, without retries. Ids that it no longer has are left out."""
    described = await _described(port, transactional_ids, coordinator)
    return [_transaction(each, coordinator) for each in described if each.error_code == ErrorCode.NONE]


async def _described(
    port: AdminTransport, transactional_ids: Sequence[str], coordinator: int
) -> list[TransactionState]:
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    return (await port.ask(request, DescribeTransactionsResponse, node_id=coordinator)).transaction_states


def _transaction(described: TransactionState, coordinator: int) -> Transaction:
    return Transaction(
        described.transactional_id,
        coordinator,
        described.transaction_state,
        described.producer_id,
        described.producer_epoch,
        described.transaction_timeout_ms,
        described.transaction_start_time_ms if described.transaction_start_time_ms >= 0 else None,
        tuple(TopicPartition(topic.topic, index) for topic in described.topics for index in topic.partitions),
    )


async def active_producers(port: AdminTransport, place: TopicPartition) -> list[ProducerState]:
    """The producers that the partition's leader has state of. Raises Refused."""

    async def attempt() -> list[ProducerState]:
        leader = await _leader(port, place)
        request = DescribeProducersRequest(topics=[TopicRequest(name=place.topic, partition_indexes=[place.partition])])
        response = await port.ask(request, DescribeProducersResponse, node_id=leader)
        described = response.topics[0].partitions[0]
        check(described.error_code, str(place), described.error_message)
        found: list[ProducerState] = described.active_producers
        return found

    return await port.retrying(attempt)


async def find_open(
    port: AdminTransport, places: Iterable[TopicPartition], silent_since_ms: int
) -> list[OpenTransaction]:
    """The open transactions in these partitions whose producer's last write was before `silent_since_ms`. Raises
    Refused."""
    open_ones = [
        OpenTransaction(place, producer)
        for place, producers in (await _producers_of(port, places)).items()
        for producer in producers
        if producer.current_txn_start_offset >= 0 and producer.last_timestamp < silent_since_ms
    ]
    if not open_ones:
        return []
    ids = {each.producer_id: each.transactional_id for each in await list_transactions(port)}
    known: dict[str, Transaction] = {}
    found = []
    for each in open_ones:
        transactional_id = ids.get(each.producer.producer_id)
        if transactional_id is None:
            found.append(each)
            continue
        if transactional_id not in known:
            known[transactional_id] = await describe_transaction(port, transactional_id)
        described = known[transactional_id]
        is_there = described.producer_id == each.producer.producer_id and each.place in described.partitions
        found.append(replace(each, transactional_id=transactional_id, coordinated=described if is_there else None))
    return found


async def end_by_fencing(port: AdminTransport, transaction: Transaction) -> None:
    """Have the coordinator abort an open transaction in all of its partitions. Its producer is fenced, as by another
    producer with the same transactional id (KIP-588). Raises Refused."""
    request = InitProducerIdRequest(
        transactional_id=transaction.transactional_id,
        transaction_timeout_ms=min(transaction.timeout_ms, FENCING_TIMEOUT_MS_MAX),
    )

    async def attempt() -> None:
        coordinator = await port.coordinator(transaction.transactional_id, COORDINATOR_OF_TRANSACTION)
        response = await port.ask(request, InitProducerIdResponse, node_id=coordinator)
        check(response.error_code, f"transactional id {transaction.transactional_id}")

    await port.retrying(attempt)


async def _producers_of(
    port: AdminTransport, places: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ProducerState]]:
    """The producers of each partition, sorted by partition."""
    wanted = sorted(places)

    async def ask(asked: tuple[int, list[TopicPartition]]) -> list[tuple[TopicPartition, list[ProducerState]]]:
        leader, led = asked
        topics: dict[str, list[int]] = {}
        for name, index in led:
            topics.setdefault(name, []).append(index)
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        )
        response = await port.ask(request, DescribeProducersResponse, node_id=leader)
        found = []
        for topic in response.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                check(each.error_code, str(place), each.error_message)
                found.append((place, each.active_producers))
        return found

    async def attempt() -> dict[TopicPartition, list[ProducerState]]:
        asked = [
            (leader, led[start : start + PARTITIONS_PER_REQUEST])
            for leader, led in (await port.by_leader(wanted)).items()
            for start in range(0, len(led), PARTITIONS_PER_REQUEST)
        ]
        told = [pair for found in await port.of_each(ask, asked) for pair in found]
        return dict(sorted(told, key=lambda pair: pair[0]))

    return await port.retrying(attempt)


async def abort_in_partition(port: AdminTransport, place: TopicPartition, producer: ProducerState) -> None:
    """Have the leader write an abort marker for the producer's transaction, in this partition only, whatever its
    coordinator decides. Raises Refused."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=max(0, producer.coordinator_epoch),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
    )

    async def attempt() -> None:
        request = WriteTxnMarkersRequest(markers=[marker])
        response = await port.ask(request, WriteTxnMarkersResponse, node_id=await _leader(port, place))
        check(response.markers[0].topics[0].partitions[0].error_code, str(place))

    await port.retrying(attempt)


async def _leader(port: AdminTransport, place: TopicPartition) -> int:
    (leader,) = await port.by_leader([place])
    return leader
