"""ListGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListGroupsResponse
from kraft.security.acls import Operation, ResourceKind
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.security.authorizer import Access


class _OnListedGroups:
    """The permissions of ListGroups: all groups with Describe on the cluster, else the groups that the caller may
    describe."""

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


API = Handler(ApiKey.LIST_GROUPS, between(0, 5), permission=_OnListedGroups())


@API.serve
async def list_groups(
    request: ListGroupsRequest, context: RequestContext, broker: BrokerServices
) -> ListGroupsResponse:
    return await broker.groups.list_groups(request, context)
