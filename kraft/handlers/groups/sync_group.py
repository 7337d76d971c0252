"""SyncGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.coordinator.group.service.group_coordinator import lacks_protocol
from kraft.handlers.groups.request_size import request_bytes_max
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY, OnGroup
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from kraft.security.acls import Operation

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.security.authorizer import Access


class _OnSync:
    """The permission of SyncGroup: Read on the group. As in Kafka, a missing mandatory protocol is reported before a
    missing permission."""

    async def serve(
        self, request: SyncGroupRequest, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        """See `PermissionCheck`."""
        check = ANYBODY if lacks_protocol(request, context.api_version) else OnGroup(Operation.READ)
        return await check.serve(request, context, services, access, handler)


API = Handler(ApiKey.SYNC_GROUP, between(0, 5), permission=_OnSync(), frame_bytes_max=request_bytes_max)


@API.serve
async def sync_group(request: SyncGroupRequest, context: RequestContext, broker: BrokerServices) -> SyncGroupResponse:
    return await broker.groups.sync_group(request, context)
