"""FindCoordinator (KIP-699): the leader of the group's partition of `__consumer_offsets`, or of the transactional id's
partition of `__transaction_state`, or of the share partition's one of `__share_group_state`. The first request for each
creates the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kraft.common.errors import ApiError
from kraft.common.internal_topics import OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kraft.coordinator.share.share_coordinator import key_of_name
from kraft.handlers.metadata.auto_topic_creation import create_missing
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnCoordinatorKeys, check_cluster
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kraft.security.acls import Operation
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(ApiKey.FIND_COORDINATOR, between(0, 6), permission=OnCoordinatorKeys())

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTION_STATE_TOPIC, SHARE: SHARE_GROUP_STATE_TOPIC}
SHARE_VERSION = 6
"""The first version of FindCoordinator that finds share coordinators."""


class _Found(NamedTuple):
    code: int
    message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


@API.serve
async def find_coordinator(
    request: FindCoordinatorRequest, context: RequestContext, broker: BrokerServices
) -> FindCoordinatorResponse:
    """Find the coordinator of one key before version 4, of many from version 4."""
    if request.key_type == SHARE:
        check_share_request(context, broker)
    topic = TOPICS.get(request.key_type)
    reason = ""
    if topic is not None and broker.metadata.image.topics.by_name(topic) is None and _has_valid_key(request):
        # Once a request, whatever comes of it: it may take a while.
        refusal = (await create_missing([topic], context, broker)).get(topic)
        if refusal is not None:
            reason = refusal.message
            broker.unmade_topics.refused(topic, reason or message_of(refusal.code), broker.log)
    if context.api_version < 4:
        found = _find(request.key, request.key_type, reason, context, broker)
        return FindCoordinatorResponse(
            error_code=found.code,
            error_message=found.message or message_of(found.code),
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    response = FindCoordinatorResponse()
    turn = Turn()
    for key in request.coordinator_keys:
        if turn.is_over():
            await turn.next()
        found = _find(key, request.key_type, reason, context, broker)
        response.coordinators.append(
            Coordinator(
                key=key,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                error_code=found.code,
                error_message=found.message or _NO_MESSAGE,
            )
        )
    return response


_NO_MESSAGE = ""


def _has_valid_key(request: FindCoordinatorRequest) -> bool:
    return request.key_type != SHARE or any(key_of_name(key) is not None for key in request.coordinator_keys)


@API.error
def _failed(request: FindCoordinatorRequest, code: int, message: str | None) -> Steps[FindCoordinatorResponse]:
    """The response with `code` for every key. Without a list of keys the code is in the top-level field."""
    if request.coordinator_keys:
        response = FindCoordinatorResponse()
        for key in request.coordinator_keys:
            response.coordinators.append(
                Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=message or _NO_MESSAGE)
            )
            yield None
        return response
    message = message or message_of(code)
    if not request.key:
        return FindCoordinatorResponse(error_code=code, error_message=message)
    return FindCoordinatorResponse(error_code=code, error_message=message, node_id=-1, port=-1)


def check_share_request(context: RequestContext, broker: BrokerServices) -> None:
    """Whether share coordinators may be looked for: only by brokers. Raises ApiError."""
    if context.api_version < SHARE_VERSION or not broker.serves_share_groups:
        raise ApiError(ErrorCode.INVALID_REQUEST, "share groups are off, or the version is below 6")
    if broker.authorizer is not None:
        check_cluster(Operation.CLUSTER_ACTION, context, broker.authorizer.access_of(context))


def _find(key: str, key_type: int, reason: str, context: RequestContext, broker: BrokerServices) -> _Found:
    """The coordinator of `key`. `reason` says why the coordinator's topic could not be created, if it was tried."""
    topic = TOPICS.get(key_type)
    if topic is None:
        return _Found(ErrorCode.INVALID_REQUEST, f"coordinators of type {key_type} are not served by this cluster")
    name = key_of_name(key) if key_type == SHARE else None
    if key_type == SHARE and name is None:
        return _Found(ErrorCode.INVALID_REQUEST, f"{key!r} is not a group, a topic id and a partition: g:id:0")
    if broker.metadata.image.topics.by_name(topic) is None:
        return _Found(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"the topic {topic} is not there yet" + (f": {reason}" if reason else ""),
        )
    if name is not None:
        partition = broker.share_coordinator.partition_for(name)
    else:
        partition = (broker.groups if key_type == GROUP else broker.transactions).partition_for(key)
    leader = broker.metadata.leader_of(topic, partition)
    node = next(
        (
            node
            for node in broker.metadata.live_brokers(context.peer.listener)
            if leader is not None and node.id == leader[0]
        ),
        None,
    )
    if node is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator's partition of {topic} has no leader now")
    return _Found(ErrorCode.NONE, None, node.id, node.host, node.port)
