"""InitProducerId (KIP-98, KIP-360) for idempotent producers: every one gets a fresh id with epoch 0. Transactional
ids are refused at once, for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(ApiKey.INIT_PRODUCER_ID, between(0, 5))

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@API.serve
async def init_producer_id(
    request: InitProducerIdRequest, context: RequestContext, broker: BrokerServices
) -> InitProducerIdResponse:
    """Raises ApiError for transactional ids."""
    if request.transactional_id is not None:
        if request.transactional_id == "":
            raise ApiError(ErrorCode.INVALID_REQUEST)
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served by this cluster")
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together or not at all")
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)


@API.error
def _failed(request: InitProducerIdRequest, code: int, message: str | None) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
