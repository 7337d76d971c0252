"""The heartbeat and the topology description of streams groups (KIP-1071), which are not served.

They are advertised and answered with UNSUPPORTED_VERSION, as Apache Kafka does while streams.version is 0. Clients then
fail immediately; if a heartbeat is not advertised, some clients wait for ever.
"""

from __future__ import annotations

from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.handlers.services import BrokerServices
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kraft.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kraft.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from kraft.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

STREAMS = Handler(ApiKey.STREAMS_GROUP_HEARTBEAT, between(0, 1), permission=ANYBODY)
TOPOLOGY = Handler(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, between(0, 0), permission=ANYBODY)


@STREAMS.serve
async def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, context: RequestContext, broker: BrokerServices
) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="Streams groups are not served."
    )


@TOPOLOGY.serve
async def update_topology_description(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, broker: BrokerServices
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="Streams groups are not served."
    )
