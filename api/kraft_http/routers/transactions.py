"""Transactions, as their coordinators know them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.datastructures import URL

from kraft.admin.transactions import Transaction, describe_transactions, list_transactions
from kraft_http.models.transactions import TransactionData, TransactionList, TransactionPartitions
from kraft_http.node_transport import NodeTransport
from kraft_http.requests.deps import PageQuery, Port, unanswered
from kraft_http.requests.errors import documented

router = APIRouter(tags=["Transactions"])

PAGE_SIZE_DEFAULT = 100


@router.get("/v1/transactions", summary="List transactional ids and their transactions", responses=documented(400))
async def get_transactions(
    port: Port,
    page: PageQuery,
    request: Request,
    q: Annotated[str | None, Query(description="Only transactional ids that contain this text.")] = None,
) -> TransactionList:
    """List transactions, always in pages (page_size 100 by default)."""
    page = page.or_of(PAGE_SIZE_DEFAULT)
    kafka = NodeTransport(port)
    listed = [each for each in await list_transactions(kafka, partial=True) if q is None or q in each.transactional_id]
    shown, metadata = page.cut(listed, lambda each: each.transactional_id, URL(str(request.url)))

    async def describe(coordinator_id: int) -> list[TransactionData]:
        ids = [each.transactional_id for each in shown if each.coordinator == coordinator_id]
        return [_transaction(each) for each in await describe_transactions(kafka, ids, coordinator_id)]

    told = await kafka.ask_brokers(describe, sorted({each.coordinator for each in shown}))
    data = sorted((each for of_one in told for each in of_one), key=lambda each: each.transactional_id)
    return TransactionList(metadata=metadata, data=data, unanswered_brokers=unanswered(kafka))


def _transaction(found: Transaction) -> TransactionData:
    topics: dict[str, list[int]] = {}
    for topic, index in found.partitions:
        topics.setdefault(topic, []).append(index)
    return TransactionData(
        transactional_id=found.transactional_id,
        coordinator_id=found.coordinator,
        state=found.state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.timeout_ms,
        start_time_ms=-1 if found.started_ms is None else found.started_ms,
        topics=[TransactionPartitions(topic_name=name, partitions=sorted(each)) for name, each in topics.items()],
    )
