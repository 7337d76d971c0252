"""ShareFetch (KIP-932, KIP-1206, KIP-1222): a member of a share group acquires records, and acknowledges earlier ones.

Acknowledgements are applied before records are acquired. The response waits for both.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ApiError
from kraft.handlers.errors import code_of, message_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ASKS_INSIDE
from kraft.handlers.share.acknowledging import acknowledge, acknowledgements_of, check_request
from kraft.handlers.share.leaders import current_leader, endpoints_of
from kraft.handlers.share.pending_share_fetch import PendingShareFetch, SharedRecords
from kraft.handlers.throttling import user_of, wait_ms
from kraft.metadata.quota_keys import CONSUMER_BYTE_RATE
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_fetch_request import ShareFetchRequest
from kraft.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kraft.share.share_sessions import FINAL_EPOCH, Place, SessionKey, ShareSession

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

RENEW_VERSION = 2

API = Handler(ApiKey.SHARE_FETCH, between(1, 2), permission=ASKS_INSIDE)


@API.serve
async def share_fetch(
    request: ShareFetchRequest, context: RequestContext, broker: BrokerServices
) -> ShareFetchResponse:
    """Serve a ShareFetch. Each partition of the response has the result of its acknowledgements and of its fetch."""
    check_request(request, context, broker)
    _check_renewal(request)
    key = SessionKey(request.group_id or "", request.member_id or "")
    acknowledgements = acknowledgements_of(request)
    session = await _session(request, key, context, broker, acknowledges=bool(acknowledgements))
    acknowledged: dict[Place, Exception | None] = {}
    fetched: list[SharedRecords] = []

    async def settle() -> None:
        acknowledged.update(await acknowledge(request, acknowledgements, context, broker))

    async with trio.open_nursery() as both_nursery:
        if acknowledgements:
            both_nursery.start_soon(settle)
        if session is not None and not request.is_renew_ack:
            if acknowledgements:
                await trio.lowlevel.checkpoint()  # What is released may be acquired again.
            fetched.extend(await PendingShareFetch(request, session, context, broker).serve())
            session.served(each.place for each in fetched if each.acquired)
    if request.share_session_epoch == FINAL_EPOCH and broker.shares.sessions.end(key):
        broker.shares.release_later(key)
    return _response(request, fetched, acknowledged, context, broker)


def _check_renewal(request: ShareFetchRequest) -> None:
    """A request that renews locks fetches nothing (KIP-1222). Raises ApiError INVALID_REQUEST."""
    if request.is_renew_ack:
        limits = (
            ("maxBytes", request.max_bytes),
            ("minBytes", request.min_bytes),
            ("maxRecords", request.max_records),
            ("maxWaitMs", request.max_wait_ms),
        )
        wrong = "".join(f"{name} must be set to 0, " for name, value in limits if value)
        if wrong:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{wrong}if isRenewAck is true.")


async def _session(
    request: ShareFetchRequest, key: SessionKey, context: RequestContext, broker: BrokerServices, *, acknowledges: bool
) -> ShareSession | None:
    """The session, created or continued; None for its last request. Raises ApiError."""
    peer, shares = context.peer, broker.shares
    try:
        session = shares.sessions.fetch(
            key,
            request.share_session_epoch,
            [(bytes(topic.topic_id), each.partition_index) for topic in request.topics for each in topic.partitions],
            [(bytes(topic.topic_id), index) for topic in request.forgotten_topics_data for index in topic.partitions],
            acknowledges=acknowledges,
            connection=peer,
        )
    except ApiError as problem:
        if problem.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:  # So that clients do not ask in a loop.
            await broker.world.clock.sleep(max(0, request.max_wait_ms) / 1000)
        raise
    peer.left = partial(shares.connection_left, peer)
    return session


def _response(
    request: ShareFetchRequest,
    fetched: list[SharedRecords],
    acknowledged: dict[Place, Exception | None],
    context: RequestContext,
    broker: BrokerServices,
) -> ShareFetchResponse:
    response = ShareFetchResponse(
        acquisition_lock_timeout_ms=broker.shares.settings_of(request.group_id or "").limits.lock_ms
    )
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    parts: dict[Place, PartitionData] = {}

    def part_of(place: Place) -> PartitionData:
        if place not in parts:
            topic_id, index = place
            if topic_id not in topics:
                topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
                response.responses.append(topics[topic_id])
            parts[place] = PartitionData(partition_index=index, current_leader=LeaderIdAndEpoch(), records=b"")
            topics[topic_id].partitions.append(parts[place])
        return parts[place]

    for shared in fetched:
        part = part_of(shared.place)
        part.records = shared.records
        part.acquired_records = [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in shared.acquired
        ]
        if shared.problem is not None:
            part.error_code, part.error_message = code_of(shared.problem), message_of(shared.problem)
    for place, problem in acknowledged.items():
        part = part_of(place)
        if problem is not None:
            part.acknowledge_error_code, part.acknowledge_error_message = code_of(problem), message_of(problem)
    for place, part in parts.items():
        if {part.error_code, part.acknowledge_error_code} & {
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
        }:
            leader_id, leader_epoch = current_leader(place, broker)
            part.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    leaders = {part.current_leader.leader_id for part in parts.values() if part.current_leader.leader_id >= 0}
    response.node_endpoints = [
        NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        for node in endpoints_of(leaders, context, broker)
    ]
    response.throttle_time_ms = _throttle_ms(sum(len(each.records) for each in fetched), context, broker)
    return response


def _throttle_ms(size: int, context: RequestContext, broker: BrokerServices) -> int:
    """The throttle time of the client for records of this size. The records are in this response in any case, because
    they are already acquired."""
    if not broker.quotas.limits_consumers:
        return 0
    seconds, _ = broker.quotas.fetched(user_of(context), context.client_id or "", size)
    return wait_ms(context, broker.quotas, seconds, CONSUMER_BYTE_RATE)
