"""The group APIs: each is the coordinator's own method, with the client's name and address beside the request.

DescribeGroups also tells what the caller may do with a group, which the coordinator does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError
from kraft.common.ids import NO_OFFSET, ZERO_UUID
from kraft.coordinator.group.classic.rebalance import join_error
from kraft.coordinator.group.offsets.offset_fetch import BATCH_VERSION, TOP_LEVEL_ERROR_VERSION, fetch_error
from kraft.coordinator.group.offsets.txn_offset_commit import TxnOffsetCommitAnswers
from kraft.coordinator.group.service.group_coordinator import NULLABLE_PROTOCOL_VERSION, lacks_protocol
from kraft.coordinator.group.service.offset_requests import Merging, commit_error, commit_portions
from kraft.handlers.registry import Handler, OnError, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of, operations_on
from kraft.handlers.security.permissions import ANYBODY, OnEach, OnGroup, OnTransaction, PermissionCheck, on_groups
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.list_groups_response import ListGroupsResponse
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kraft.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kraft.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from kraft.protocol.schema import Turns
from kraft.security.acls import Operation, ResourceKind
from kraft.world.turns import TURN_ITEMS, Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.security.authorizer import Access


def _group_api(
    key: int,
    versions: tuple[int, int],
    method: str,
    on_error: OnError | None = None,
    frame_bytes_max: Callable[[Any], int] | None = None,
    *,
    permission: PermissionCheck,
) -> Handler:
    handler = Handler(key, versions, permission=permission, frame_bytes_max=frame_bytes_max)
    handler.serve(_delegate(method))
    handler.on_error = on_error
    return handler


def _delegate(method: str) -> Callable[[Any, RequestContext, BrokerServices], Awaitable[Any]]:
    async def serve(request: Any, context: RequestContext, broker: BrokerServices) -> Any:
        return await getattr(broker.groups, method)(request, context)

    return serve


DESCRIBE_GROUPS = Handler(
    ApiKey.DESCRIBE_GROUPS, between(0, 6), permission=on_groups(Operation.DESCRIBE, "groups", "groups")
)


@DESCRIBE_GROUPS.serve
async def describe_groups(
    request: DescribeGroupsRequest, context: RequestContext, broker: BrokerServices
) -> DescribeGroupsResponse:
    """Operations are told (KIP-430) for groups without an error, also for those that do not exist where the version
    has no error for that."""
    response = await broker.groups.describe_groups(request, context)
    if request.include_authorized_operations:
        access = access_of(context, broker)
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = operations_on(ResourceKind.GROUP, group.group_id, access)
    return response


@DESCRIBE_GROUPS.error
def _describe_groups_failed(
    request: DescribeGroupsRequest, code: int, message: str | None
) -> Turns[DescribeGroupsResponse]:
    """The code has to do: before version 6 there is no room for a message."""
    response = DescribeGroupsResponse()
    for group_id in request.groups:
        response.groups.append(DescribedGroup(group_id=group_id, error_code=code))
        yield
    return response


def _delete_groups_failed(request: DeleteGroupsRequest, code: int, message: str | None) -> Turns[DeleteGroupsResponse]:
    response = DeleteGroupsResponse()
    for group_id in dict.fromkeys(request.groups_names):
        response.results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        yield
    return response


def _offset_commit_failed(request: OffsetCommitRequest, code: int, message: str | None) -> Turns[OffsetCommitResponse]:
    whole = OffsetCommitResponse()
    merging = Merging(whole.topics)
    for portion in commit_portions(request, TURN_ITEMS):
        merging.add(commit_error(portion, code).topics)
        yield from (None for _ in range(TURN_ITEMS))
    return whole


def _offset_fetch_failed(request: OffsetFetchRequest, code: int, message: str | None) -> Turns[OffsetFetchResponse]:
    return fetch_error(request, code)


def _txn_offset_commit_failed(
    request: TxnOffsetCommitRequest, code: int, message: str | None
) -> Turns[TxnOffsetCommitResponse]:
    return TxnOffsetCommitAnswers(request).response(TXN_OFFSET_COMMIT_VERSIONS[1], code)


def _request_bytes_max(broker: BrokerServices) -> int:
    return broker.config.integer("kraft.group.request.max.bytes")


def _topic_needed(topic: Any, request: Any, broker: BrokerServices) -> tuple[int, int, str] | None:
    """Read on a topic that is named, or has an id that is known."""
    name = topic.name or broker.replicas.topic_names.get(topic.topic_id)
    return None if name is None else (Operation.READ, ResourceKind.TOPIC, name)


class _OnJoin:
    """JoinGroup: Read on the group. A refusal names no protocol, as every refusal of this API."""

    async def serve(
        self, request: JoinGroupRequest, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> JoinGroupResponse:
        """See `PermissionCheck`."""
        if not access.allows(Operation.READ, ResourceKind.GROUP, request.group_id):
            refused = join_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if context.api_version < NULLABLE_PROTOCOL_VERSION:
                refused.protocol_name = ""
            return refused
        response: JoinGroupResponse = await ANYBODY.serve(request, context, services, access, handler)
        return response


class _OnSync:
    """SyncGroup: Read on the group. As in Kafka, a request without its mandatory protocol is told so first."""

    async def serve(
        self, request: SyncGroupRequest, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        """See `PermissionCheck`."""
        check = ANYBODY if lacks_protocol(request, context.api_version) else _READ
        return await check.serve(request, context, services, access, handler)


_COMMITTED = OnEach("topics", "topics", _topic_needed)
_READ = OnGroup(Operation.READ)


class _OnFetchedOffsets:
    """OffsetFetch: Describe on each group and each topic. Topics that nobody named are hidden."""

    async def serve(
        self, request: OffsetFetchRequest, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> OffsetFetchResponse:
        """See `PermissionCheck`."""
        response: OffsetFetchResponse
        if context.api_version < BATCH_VERSION:
            if not access.allows(Operation.DESCRIBE, ResourceKind.GROUP, request.group_id):
                if context.api_version < TOP_LEVEL_ERROR_VERSION:
                    raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
                return OffsetFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            response = await ANYBODY.serve(request, context, services, access, handler)
            response.topics = await _shown_topics(response.topics, request.topics is None, access, services)
            return response
        whole = OnEach("groups", "groups", lambda group, *_: (Operation.DESCRIBE, ResourceKind.GROUP, group.group_id))
        response = await whole.serve(request, context, services, access, handler)
        shows_all = {group.group_id for group in request.groups if group.topics is None}
        for group in response.groups:
            if not group.error_code:
                group.topics = await _shown_topics(group.topics, group.group_id in shows_all, access, services)
        return response


async def _shown_topics(topics: list[Any], hides: bool, access: Access, broker: BrokerServices) -> list[Any]:
    """What may be told of fetched offsets. Refused topics come last; with `hides` they are left out."""
    shown, refused = [], []
    turn = Turn()
    for topic in topics:
        if turn.is_over(1 + len(topic.partitions)):
            await turn.next()
        topic_id = getattr(topic, "topic_id", ZERO_UUID)
        name = topic.name or broker.replicas.topic_names.get(topic_id)
        if name is None or (access.may if hides else access.allows)(Operation.DESCRIBE, ResourceKind.TOPIC, name):
            shown.append(topic)
        elif not hides:
            for part in topic.partitions:
                part.committed_offset, part.committed_leader_epoch, part.metadata = NO_OFFSET, -1, ""
                part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append(topic)
    return shown + refused


class _OnListedGroups:
    """ListGroups: all for who may describe the cluster, else those that may be described."""

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> ListGroupsResponse:
        """See `PermissionCheck`."""
        response: ListGroupsResponse = await ANYBODY.serve(request, context, services, access, handler)
        if access.may(Operation.DESCRIBE, ResourceKind.CLUSTER):
            return response
        listed, response.groups = response.groups, []
        turn = Turn()
        for group in listed:
            if turn.is_over():
                await turn.next()
            if access.may(Operation.DESCRIBE, ResourceKind.GROUP, group.group_id):
                response.groups.append(group)
        return response


class _OnDeletedOffsets:
    """OffsetDelete: Delete on the group, Read on each topic."""

    async def serve(
        self, request: OffsetDeleteRequest, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> OffsetDeleteResponse:
        """See `PermissionCheck`."""
        if not access.allows(Operation.DELETE, ResourceKind.GROUP, request.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        allowed: list[OffsetDeleteRequestTopic] = []
        refused: list[OffsetDeleteRequestTopic] = []
        for topic in request.topics:
            may = access.allows(Operation.READ, ResourceKind.TOPIC, topic.name)
            (allowed if may else refused).append(topic)
        request.topics = allowed
        response: OffsetDeleteResponse = await ANYBODY.serve(request, context, services, access, handler)
        for topic in () if response.error_code else refused:
            answer = OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(answer)
            for part in topic.partitions:
                answer.partitions.append(
                    OffsetDeleteResponsePartition(
                        partition_index=part.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    )
                )
        return response


TXN_OFFSET_COMMIT_VERSIONS = between(0, 5)

TXN_OFFSET_COMMIT = _group_api(
    ApiKey.TXN_OFFSET_COMMIT,
    TXN_OFFSET_COMMIT_VERSIONS,
    "txn_offset_commit",
    _txn_offset_commit_failed,
    permission=OnTransaction(OnGroup(Operation.READ, _COMMITTED)),
)

APIS = (
    _group_api(
        ApiKey.OFFSET_COMMIT,
        between(2, 10),
        "offset_commit",
        _offset_commit_failed,
        permission=OnGroup(Operation.READ, _COMMITTED),
    ),
    _group_api(
        ApiKey.OFFSET_FETCH, between(1, 10), "offset_fetch", _offset_fetch_failed, permission=_OnFetchedOffsets()
    ),
    _group_api(
        ApiKey.JOIN_GROUP, between(0, 9), "join_group", permission=_OnJoin(), frame_bytes_max=_request_bytes_max
    ),
    _group_api(ApiKey.HEARTBEAT, between(0, 4), "heartbeat", permission=_READ),
    _group_api(ApiKey.LEAVE_GROUP, between(0, 5), "leave_group", permission=_READ),
    _group_api(
        ApiKey.SYNC_GROUP, between(0, 5), "sync_group", permission=_OnSync(), frame_bytes_max=_request_bytes_max
    ),
    DESCRIBE_GROUPS,
    _group_api(ApiKey.LIST_GROUPS, between(0, 5), "list_groups", permission=_OnListedGroups()),
    _group_api(
        ApiKey.DELETE_GROUPS,
        between(0, 2),
        "delete_groups",
        _delete_groups_failed,
        permission=on_groups(Operation.DELETE, "groups_names", "results"),
    ),
    _group_api(ApiKey.OFFSET_DELETE, between(0, 0), "offset_delete", permission=_OnDeletedOffsets()),
    TXN_OFFSET_COMMIT,
)
