"""Transactions, asked of their coordinators."""

from __future__ import annotations

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft_http.kafka.client import Kafka, ask_brokers, raise_for
from kraft_http.kafka.cluster import describe_brokers


async def list_transactions(kafka: Kafka) -> list[tuple[str, int]]:
    """Every transactional id that a live broker coordinates, with that broker, by id. `kafka.silent` tells which did
    not answer. Raises KafkaProblem."""

    async def ask(broker_id: int) -> list[tuple[str, int]]:
        response = await kafka.ask(
            ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest(), ListTransactionsResponse, broker_id
        )
        raise_for(response.error_code, subject=f"transactions of broker {broker_id}")
        return [(state.transactional_id, broker_id) for state in response.transaction_states]

    live = [broker.broker_id for broker in await describe_brokers(kafka) if not broker.is_fenced]
    return sorted({each for listed in await ask_brokers(kafka, ask, live) for each in listed})


async def describe_transactions(
    kafka: Kafka, transactional_ids: list[str], coordinator_id: int
) -> list[TransactionState]:
    """Those of one coordinator; ids that it does not know any more are left out."""
    request = DescribeTransactionsRequest(transactional_ids=transactional_ids)
    response = await kafka.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request, DescribeTransactionsResponse, coordinator_id)
    return [state for state in response.transaction_states if state.error_code == 0]
