"""JoinGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.coordinator.group.classic.rebalance import join_error
from kraft.coordinator.group.service.group_coordinator import NULLABLE_PROTOCOL_VERSION
from kraft.handlers.groups.request_size import request_bytes_max
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.security.acls import Operation, ResourceKind

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.security.authorizer import Access


class _OnJoin:
    """The permission of JoinGroup: Read on the group. Like every JoinGroup error, a rejection has no protocol name."""

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


API = Handler(ApiKey.JOIN_GROUP, between(0, 9), permission=_OnJoin(), frame_bytes_max=request_bytes_max)


@API.serve
async def join_group(request: JoinGroupRequest, context: RequestContext, broker: BrokerServices) -> JoinGroupResponse:
    return await broker.groups.join_group(request, context)
