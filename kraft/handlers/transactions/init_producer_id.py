"""InitProducerId (KIP-98, KIP-360, KIP-939). An idempotent producer gets a new id with epoch 0. For a transactional id
the coordinator decides producer id and epoch.

Version 6 has two-phase commit. Kafka marks it unstable, so brokers offer it only with
`transaction.two.phase.commit.enable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.coordinator.transaction.init_producer import Claim
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnIdempotentWrite
from kraft.handlers.transactions.transactions import for_older
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(ApiKey.INIT_PRODUCER_ID, between(0, 5), permission=OnIdempotentWrite())
TWO_PHASE = Handler(ApiKey.INIT_PRODUCER_ID, between(0, 6), permission=OnIdempotentWrite())
"""Serves this API instead, with `transaction.two.phase.commit.enable`."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
KNOWS_FENCED = 4
"""From this version on clients know PRODUCER_FENCED (KIP-588)."""


@API.serve
@TWO_PHASE.serve
async def init_producer_id(
    request: InitProducerIdRequest, context: RequestContext, broker: BrokerServices
) -> InitProducerIdResponse:
    """Assign a producer id and epoch. Raises ApiError."""
    if request.transactional_id == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together or not at all")
    if request.transactional_id is not None:
        claim = None if request.producer_id == NO_PRODUCER_ID else Claim(request.producer_id, request.producer_epoch)
        try:
            made = await broker.transactions.init_two_phase(
                request.transactional_id,
                request.transaction_timeout_ms,
                claim,
                has_timeout=not request.enable2_pc,
                keep=request.keep_prepared_txn,
            )
        except ApiError as refused:
            raise for_older(refused, context.api_version < KNOWS_FENCED) from refused
        return InitProducerIdResponse(
            producer_id=made.producer[0],
            producer_epoch=made.producer[1],
            ongoing_txn_producer_id=made.ongoing[0],
            ongoing_txn_producer_epoch=made.ongoing[1],
        )
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)


@API.error
@TWO_PHASE.error
def _failed(request: InitProducerIdRequest, code: int, message: str | None) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
