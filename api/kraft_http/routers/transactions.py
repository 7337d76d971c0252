"""Transactions, as their coordinators know them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.datastructures import URL

from kraft.protocol.messages.describe_transactions_response import TransactionState
from kraft_http.deps import PageQuery, Port, unanswered
from kraft_http.errors import documented
from kraft_http.kafka.client import Kafka, ask_brokers
from kraft_http.kafka.transactions import describe_transactions, list_transactions
from kraft_http.models.transactions import TransactionData, TransactionList, TransactionPartitions

router = APIRouter(tags=["Transactions"])

PAGE_SIZE_DEFAULT = 100


@router.get("/v1/transactions", summary="List transactional ids and their transactions", responses=documented(400))
async def get_transactions(
    port: Port,
    page: PageQuery,
    request: Request,
    q: Annotated[str | None, Query(description="Only ids that contain this.")] = None,
) -> TransactionList:
    """Always in pages: of 100 unless page_size says otherwise."""
    page = page.or_of(PAGE_SIZE_DEFAULT)
    kafka = Kafka(port)
    listed = [each for each in await list_transactions(kafka) if q is None or q in each[0]]
    shown, metadata = page.cut(listed, lambda each: each[0], URL(str(request.url)))

    async def describe(coordinator_id: int) -> list[TransactionData]:
        ids = [transactional_id for transactional_id, at in shown if at == coordinator_id]
        return [
            _transaction(state, coordinator_id) for state in await describe_transactions(kafka, ids, coordinator_id)
        ]

    told = await ask_brokers(kafka, describe, sorted({coordinator_id for _, coordinator_id in shown}))
    data = sorted((each for of_one in told for each in of_one), key=lambda each: each.transactional_id)
    return TransactionList(metadata=metadata, data=data, unanswered_brokers=unanswered(kafka))


def _transaction(state: TransactionState, coordinator_id: int) -> TransactionData:
    return TransactionData(
        transactional_id=state.transactional_id,
        coordinator_id=coordinator_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        start_time_ms=state.transaction_start_time_ms,
        topics=[
            TransactionPartitions(topic_name=topic.topic, partitions=sorted(topic.partitions)) for topic in state.topics
        ],
    )
