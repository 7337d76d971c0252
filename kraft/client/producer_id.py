"""Who an idempotent producer is: an id and an epoch that the cluster hands out (KIP-98)."""

from __future__ import annotations

from kraft.client.cluster import Cluster
from kraft.client.errors import check
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest

TRANSACTION_TIMEOUT_MS = 30_000
"""Means nothing without a transactional id, but must be positive."""


async def new_producer_id(cluster: Cluster) -> tuple[int, int]:
    """A producer id that nobody had before, and its first epoch. One attempt: raises ApiError, and as
    `Cluster.call`."""
    response = await cluster.call(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    )
    check(response.error_code, "a producer id")
    return response.producer_id, response.producer_epoch
