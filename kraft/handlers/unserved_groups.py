"""Heartbeats of unsupported group types: share groups (KIP-932) and streams groups (KIP-1071).

They are advertised and answered with UNSUPPORTED_VERSION, as Apache Kafka does while share.version or streams.version
is 0. Clients then fail immediately; if a heartbeat is not advertised, some clients wait for ever.
"""

from __future__ import annotations

from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.handlers.services import BrokerServices
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kraft.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

SHARE = Handler(ApiKey.SHARE_GROUP_HEARTBEAT, between(1, 1), permission=ANYBODY)
STREAMS = Handler(ApiKey.STREAMS_GROUP_HEARTBEAT, between(0, 1), permission=ANYBODY)


@SHARE.serve
async def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, context: RequestContext, broker: BrokerServices
) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="Share groups are not served."
    )


@STREAMS.serve
async def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, context: RequestContext, broker: BrokerServices
) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="Streams groups are not served."
    )
