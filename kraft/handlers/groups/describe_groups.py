"""DescribeGroups, with authorized operations (KIP-430), which the coordinator does not add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of, operations_on
from kraft.handlers.security.permissions import on_groups
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kraft.security.acls import Operation, ResourceKind
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


API = Handler(ApiKey.DESCRIBE_GROUPS, between(0, 6), permission=on_groups(Operation.DESCRIBE, "groups", "groups"))


@API.serve
async def describe_groups(
    request: DescribeGroupsRequest, context: RequestContext, broker: BrokerServices
) -> DescribeGroupsResponse:
    """Add the caller's authorized operations (KIP-430) to each group without an error.

    Versions without an error for an unknown group get the operations for that group too.
    """
    response = await broker.groups.describe_groups(request, context)
    if request.include_authorized_operations:
        access = access_of(context, broker)
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = operations_on(ResourceKind.GROUP, group.group_id, access)
    return response


@API.error
def _describe_groups_failed(
    request: DescribeGroupsRequest, code: int, message: str | None
) -> Steps[DescribeGroupsResponse]:
    """The response with `code` for each group. It has no message: versions before 6 have no field for it."""
    response = DescribeGroupsResponse()
    for group_id in request.groups:
        response.groups.append(DescribedGroup(group_id=group_id, error_code=code))
        yield None
    return response
