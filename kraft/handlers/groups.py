"""The group APIs: each is the coordinator's own method, with the client's name and address beside the request.

DescribeGroups also tells what the caller may do with a group, which the coordinator does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kraft.handlers.authorized_operations import GROUP_OPERATIONS
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribeGroupsResponse

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


def _group_api(key: int, versions: tuple[int, int], method: str) -> Handler:
    handler = Handler(key, versions)
    handler.serve(_delegate(method))
    return handler


def _delegate(method: str) -> Callable[[Any, RequestContext, BrokerServices], Awaitable[Any]]:
    async def serve(request: Any, context: RequestContext, broker: BrokerServices) -> Any:
        return await getattr(broker.groups, method)(request, context)

    return serve


DESCRIBE_GROUPS = Handler(ApiKey.DESCRIBE_GROUPS, between(0, 6))


@DESCRIBE_GROUPS.serve
async def describe_groups(request: DescribeGroupsRequest, context: RequestContext, broker: BrokerServices) -> DescribeGroupsResponse:
    """Operations are told (KIP-430) for groups without an error, also for those that do not exist where the version has no error for that."""
    response = await broker.groups.describe_groups(request, context)
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return response


APIS = (
    _group_api(ApiKey.OFFSET_COMMIT, between(2, 10), "offset_commit"),
    _group_api(ApiKey.OFFSET_FETCH, between(1, 10), "offset_fetch"),
    _group_api(ApiKey.JOIN_GROUP, between(0, 9), "join_group"),
    _group_api(ApiKey.HEARTBEAT, between(0, 4), "heartbeat"),
    _group_api(ApiKey.LEAVE_GROUP, between(0, 5), "leave_group"),
    _group_api(ApiKey.SYNC_GROUP, between(0, 5), "sync_group"),
    DESCRIBE_GROUPS,
    _group_api(ApiKey.LIST_GROUPS, between(0, 5), "list_groups"),
    _group_api(ApiKey.DELETE_GROUPS, between(0, 2), "delete_groups"),
    _group_api(ApiKey.OFFSET_DELETE, between(0, 0), "offset_delete"),
)
