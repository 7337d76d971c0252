"""Heartbeat of the classic group protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnGroup
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.security.acls import Operation

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


API = Handler(ApiKey.HEARTBEAT, between(0, 4), permission=OnGroup(Operation.READ))


@API.serve
async def heartbeat(request: HeartbeatRequest, context: RequestContext, broker: BrokerServices) -> HeartbeatResponse:
    return await broker.groups.heartbeat(request, context)
