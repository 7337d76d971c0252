"""DeleteGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import on_groups
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kraft.security.acls import Operation
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


API = Handler(ApiKey.DELETE_GROUPS, between(0, 3), permission=on_groups(Operation.DELETE, "groups_names", "results"))


@API.serve
async def delete_groups(
    request: DeleteGroupsRequest, context: RequestContext, broker: BrokerServices
) -> DeleteGroupsResponse:
    return await broker.groups.delete_groups(request, context)


@API.error
def _delete_groups_failed(request: DeleteGroupsRequest, code: int, message: str | None) -> Steps[DeleteGroupsResponse]:
    response = DeleteGroupsResponse()
    for group_id in dict.fromkeys(request.groups_names):
        response.results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        yield None
    return response
