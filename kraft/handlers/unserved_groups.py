"""The topology description of streams groups (KIP-1071), which is not served.

It is advertised and answered with UNSUPPORTED_VERSION, as Apache Kafka does without a plugin that stores descriptions.
"""

from __future__ import annotations

from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.handlers.services import BrokerServices
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from kraft.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

TOPOLOGY = Handler(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, between(0, 0), permission=ANYBODY)


@TOPOLOGY.serve
async def update_topology_description(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, broker: BrokerServices
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="Descriptions of topologies are not served."
    )
