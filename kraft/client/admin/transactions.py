"""Transactions: who has one open, and ending one that hangs (KIP-664)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kraft.client.cluster import COORDINATOR_OF_TRANSACTION, Cluster
from kraft.client.errors import check
from kraft.common.ids import TopicPartition
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.describe_producers_response import ProducerState
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """`started_ms` is None where none is open."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]


async def list_transactions(
    cluster: Cluster, states: Sequence[str] = (), open_for_ms: int = -1, pattern: str | None = None
) -> list[ListedTransaction]:
    """Of every live broker, in order of id: those in one of the states (none named: any) that have been open for
    longer (-1: any) and whose id `pattern` describes, a regular expression as of RE2. Raises ApiError, and
    UnsupportedApi for a pattern where brokers do not know of it."""
    request = ListTransactionsRequest(
        state_filters=list(states), duration_filter=open_for_ms, transactional_id_pattern=pattern
    )

    async def attempt() -> list[ListedTransaction]:
        found = []
        for broker in await cluster.broker_ids():
            response = await cluster.call(request, node_id=broker)
            check(response.error_code, f"transactions of broker {broker}")
            found += [
                ListedTransaction(each.transactional_id, broker, each.producer_id, each.transaction_state)
                for each in response.transaction_states
            ]
        return sorted(found, key=lambda each: each.transactional_id)

    return await cluster.retrying(attempt)


async def describe_transaction(cluster: Cluster, transactional_id: str) -> Transaction:
    """Raises ApiError, with TRANSACTIONAL_ID_NOT_FOUND when there is none."""

    async def attempt() -> Transaction:
        coordinator = await cluster.coordinator(transactional_id, COORDINATOR_OF_TRANSACTION)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        described = (await cluster.call(request, node_id=coordinator)).transaction_states[0]
        check(described.error_code, f"transactional id {transactional_id}")
        return Transaction(
            transactional_id,
            coordinator,
            described.transaction_state,
            described.producer_id,
            described.producer_epoch,
            described.transaction_timeout_ms,
            described.transaction_start_time_ms if described.transaction_start_time_ms >= 0 else None,
            tuple(TopicPartition(topic.topic, index) for topic in described.topics for index in topic.partitions),
        )

    return await cluster.retrying(attempt)


async def active_producers(cluster: Cluster, place: TopicPartition) -> list[ProducerState]:
    """Producers that the partition's leader knows. Raises ApiError."""

    async def attempt() -> list[ProducerState]:
        leader = await _leader(cluster, place)
        request = DescribeProducersRequest(topics=[TopicRequest(name=place.topic, partition_indexes=[place.partition])])
        response = await cluster.call(request, node_id=leader)
        described = response.topics[0].partitions[0]
        check(described.error_code, str(place), described.error_message)
        found: list[ProducerState] = described.active_producers
        return found

    return await cluster.retrying(attempt)


async def abort_in_partition(cluster: Cluster, place: TopicPartition, producer: ProducerState) -> None:
    """Have the leader write that the producer's transaction is aborted, in this partition alone, whatever its
    coordinator says. Raises ApiError."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=max(0, producer.coordinator_epoch),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
    )

    async def attempt() -> None:
        response = await cluster.call(WriteTxnMarkersRequest(markers=[marker]), node_id=await _leader(cluster, place))
        check(response.markers[0].topics[0].partitions[0].error_code, str(place))

    await cluster.retrying(attempt)


async def _leader(cluster: Cluster, place: TopicPartition) -> int:
    (leader,) = await cluster.by_leader([place])
    return leader
