"""The group APIs: each is the coordinator's own method, with the client's name and address beside the request.

DescribeGroups also tells what the caller may do with a group, which the coordinator does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kraft.coordinator.group.offset_fetch import fetch_error
from kraft.coordinator.group.txn_offset_commit import TxnOffsetCommitAnswers
from kraft.coordinator.offset_requests import Merging, commit_error, commit_portions
from kraft.handlers.authorized_operations import GROUP_OPERATIONS
from kraft.handlers.registry import Handler, OnError, RequestContext, between
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kraft.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from kraft.protocol.schema import Turns
from kraft.world.turns import TURN_ITEMS

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


def _group_api(
    key: int,
    versions: tuple[int, int],
    method: str,
    on_error: OnError | None = None,
    frame_bytes_max: Callable[[Any], int] | None = None,
) -> Handler:
    handler = Handler(key, versions, frame_bytes_max=frame_bytes_max)
    handler.serve(_delegate(method))
    handler.on_error = on_error
    return handler


def _delegate(method: str) -> Callable[[Any, RequestContext, BrokerServices], Awaitable[Any]]:
    async def serve(request: Any, context: RequestContext, broker: BrokerServices) -> Any:
        return await getattr(broker.groups, method)(request, context)

    return serve


DESCRIBE_GROUPS = Handler(ApiKey.DESCRIBE_GROUPS, between(0, 6))


@DESCRIBE_GROUPS.serve
async def describe_groups(
    request: DescribeGroupsRequest, context: RequestContext, broker: BrokerServices
) -> DescribeGroupsResponse:
    """Operations are told (KIP-430) for groups without an error, also for those that do not exist where the version
    has no error for that."""
    response = await broker.groups.describe_groups(request, context)
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
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


TXN_OFFSET_COMMIT_VERSIONS = between(0, 5)

TXN_OFFSET_COMMIT = _group_api(
    ApiKey.TXN_OFFSET_COMMIT, TXN_OFFSET_COMMIT_VERSIONS, "txn_offset_commit", _txn_offset_commit_failed
)

APIS = (
    _group_api(ApiKey.OFFSET_COMMIT, between(2, 10), "offset_commit", _offset_commit_failed),
    _group_api(ApiKey.OFFSET_FETCH, between(1, 10), "offset_fetch", _offset_fetch_failed),
    _group_api(ApiKey.JOIN_GROUP, between(0, 9), "join_group", frame_bytes_max=_request_bytes_max),
    _group_api(ApiKey.HEARTBEAT, between(0, 4), "heartbeat"),
    _group_api(ApiKey.LEAVE_GROUP, between(0, 5), "leave_group"),
    _group_api(ApiKey.SYNC_GROUP, between(0, 5), "sync_group", frame_bytes_max=_request_bytes_max),
    DESCRIBE_GROUPS,
    _group_api(ApiKey.LIST_GROUPS, between(0, 5), "list_groups"),
    _group_api(ApiKey.DELETE_GROUPS, between(0, 2), "delete_groups", _delete_groups_failed),
    _group_api(ApiKey.OFFSET_DELETE, between(0, 0), "offset_delete"),
    TXN_OFFSET_COMMIT,
)
