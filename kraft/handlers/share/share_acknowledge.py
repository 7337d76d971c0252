"""ShareAcknowledge (KIP-932, KIP-1222): a member of a share group acknowledges records, or renews its locks on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.handlers.errors import code_of, message_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ASKS_INSIDE
from kraft.handlers.share.acknowledging import acknowledge, acknowledgements_of, check_request
from kraft.handlers.share.leaders import current_leader, endpoints_of
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kraft.protocol.messages.share_acknowledge_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kraft.share.share_sessions import FINAL_EPOCH, SessionKey

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(ApiKey.SHARE_ACKNOWLEDGE, between(1, 2), permission=ASKS_INSIDE)


@API.serve
async def share_acknowledge(
    request: ShareAcknowledgeRequest, context: RequestContext, broker: BrokerServices
) -> ShareAcknowledgeResponse:
    """Serve a ShareAcknowledge. Each partition has its own result. The last request of a session releases the records
    that the member still holds."""
    check_request(request, context, broker)
    key = SessionKey(request.group_id or "", request.member_id or "")
    broker.shares.sessions.acknowledge(key, request.share_session_epoch)
    results = await acknowledge(request, acknowledgements_of(request), context, broker)
    if request.share_session_epoch == FINAL_EPOCH and broker.shares.sessions.end(key):
        broker.shares.release_later(key)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.shares.settings_of(key.group_id).limits.lock_ms
    )
    leaders: set[int] = set()
    for topic in request.topics:
        answers = ShareAcknowledgeTopicResponse(topic_id=topic.topic_id)
        response.responses.append(answers)
        for each in topic.partitions:
            place = bytes(topic.topic_id), each.partition_index
            part = PartitionData(partition_index=each.partition_index, current_leader=LeaderIdAndEpoch())
            problem = results.get(place)
            if problem is not None:
                part.error_code, part.error_message = code_of(problem), message_of(problem)
            if part.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                leader_id, leader_epoch = current_leader(place, broker)
                part.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
                leaders.add(leader_id)
            answers.partitions.append(part)
    response.node_endpoints = [
        NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        for node in endpoints_of(leaders, context, broker)
    ]
    return response
