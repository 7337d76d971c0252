"""AllocateProducerIds: brokers reserve blocks of a thousand producer ids and assign them to producers (KIP-730)."""

from __future__ import annotations

from typing import Final

from kraft.common.errors import ApiError
from kraft.controller.brokers.cluster_control import check_broker_epoch
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.metadata.records.producer_ids_record import ProducerIdsRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

BLOCK_SIZE: Final = 1_000
_INT64_MAX: Final = (1 << 63) - 1


def allocate_producer_ids(
    view: ControllerView, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Return the record and the response for AllocateProducerIds. Raises ApiError(STALE_BROKER_EPOCH), or
    UNKNOWN_SERVER_ERROR when no ids are left."""
    check_broker_epoch(view, request.broker_id, request.broker_epoch)
    first = view.image.producer_ids.next_producer_id
    if first > _INT64_MAX - BLOCK_SIZE:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return ControllerResult([record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE))
