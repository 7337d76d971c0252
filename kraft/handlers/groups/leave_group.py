"""LeaveGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnGroup
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest
from kraft.protocol.messages.leave_group_response import LeaveGroupResponse
from kraft.security.acls import Operation

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


API = Handler(ApiKey.LEAVE_GROUP, between(0, 5), permission=OnGroup(Operation.READ))


@API.serve
async def leave_group(
    request: LeaveGroupRequest, context: RequestContext, broker: BrokerServices
) -> LeaveGroupResponse:
    return await broker.groups.leave_group(request, context)
