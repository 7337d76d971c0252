"""The common part of ShareFetch and ShareAcknowledge: the checks of a request, and acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.common.errors import ApiError
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.fetch.partition_reader import NO_FAILURE
from kraft.handlers.registry import RequestContext
from kraft.handlers.share.share_state import require_share_groups
from kraft.protocol.error_codes import ErrorCode
from kraft.security.acls import Operation, ResourceKind
from kraft.share.acknowledgement import RENEW, Acknowledgement
from kraft.share.share_sessions import Place

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition_traffic import PartitionTraffic

MEMBER_ID_CHARACTERS_MAX: Final = 36
ACKNOWLEDGED_AT_ONCE_MAX: Final = 20_000
"""Limit of the acknowledged ranges and their types for one partition of a request. It is above the largest number of
records that can be in flight in a partition (group.share.max.partition.max.record.locks)."""
_NO_FAILURE: Final = NO_FAILURE | {ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD_STATE}
"""Errors that are not counted as failed acknowledgements: the client's mistakes, locks that expired, moved leaders."""


def check_request(request: Any, context: RequestContext, broker: BrokerServices) -> None:
    """Check the fields of a request outside of its partitions. Raises ApiError UNSUPPORTED_VERSION while share groups
    are disabled, INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED."""
    require_share_groups(broker)
    if request.group_id is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    authorizer = broker.authorizer
    if authorizer is not None and not authorizer.access_of(context).allows(
        Operation.READ, ResourceKind.GROUP, request.group_id
    ):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "")
    member_id = request.member_id
    if not member_id or len(member_id) > MEMBER_ID_CHARACTERS_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")


def check_topic(place: Place, context: RequestContext, broker: BrokerServices) -> None:
    """Whether the client may read the topic. Raises ApiError UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED."""
    name = broker.replicas.topic_names.get(place[0])
    if name is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    authorizer = broker.authorizer
    if authorizer is not None and not authorizer.access_of(context).allows(Operation.READ, ResourceKind.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")


def acknowledgements_of(request: Any) -> dict[Place, list[Acknowledgement]]:
    """The acknowledgements by partition. Partitions without any are left out."""
    return {
        (bytes(topic.topic_id), each.partition_index): [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in each.acknowledgement_batches
        ]
        for topic in request.topics
        for each in topic.partitions
        if each.acknowledgement_batches
    }


async def acknowledge(
    request: Any,
    acknowledgements: Mapping[Place, Sequence[Acknowledgement]],
    context: RequestContext,
    broker: BrokerServices,
) -> dict[Place, Exception | None]:
    """Apply the acknowledgements of the request. Returns the result of each partition once it is durable: None, or the
    error."""
    results: dict[Place, Exception | None] = {}

    async def settle(place: Place) -> None:
        traffic: PartitionTraffic | None = None
        try:
            check_topic(place, context, broker)
            _check(acknowledgements[place], request)
            traffic = broker.shares.partition_at(place).traffic
            traffic.share_acknowledgements += 1
            await broker.shares.acknowledge(request.group_id, request.member_id, place, acknowledgements[place])
            results[place] = None
        except EXPECTED as problem:
            results[place] = problem
            if traffic is not None and code_of(problem) not in _NO_FAILURE:
                traffic.failed_share_acknowledgements += 1

    async with trio.open_nursery() as settling_nursery:
        for place in acknowledgements:
            settling_nursery.start_soon(settle, place)
    return {place: results[place] for place in acknowledgements}


def _check(acknowledgements: Sequence[Acknowledgement], request: Any) -> None:
    """Raises ApiError INVALID_REQUEST for too many acknowledgements, and for renewals in a request that is not declared
    as a renewal (KIP-1222)."""
    if sum(1 + len(each.types) for each in acknowledgements) > ACKNOWLEDGED_AT_ONCE_MAX:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"more than {ACKNOWLEDGED_AT_ONCE_MAX} ranges and acknowledgement types for one partition",
        )
    if not request.is_renew_ack and any(RENEW in each.types for each in acknowledgements):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a renewal in a request whose IsRenewAck is false")
