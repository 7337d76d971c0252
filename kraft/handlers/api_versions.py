"""ApiVersions (KIP-35, KIP-511, KIP-584): the first request on a connection. The answer always has response header
version 0."""

from __future__ import annotations

import re
import struct
from typing import Any

from kraft.common.features import SUPPORTED_FEATURES
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.network.reply import Reply
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

API = Handler(ApiKey.API_VERSIONS, between(0, 5), permission=ANYBODY, listeners=(BROKER, CONTROLLER))

NODE_VERSION = 5
"""First version in which the client names the node and cluster that it wants (KIP-1242)."""
NO_NODE = -1

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@API.serve
async def api_versions(request: ApiVersionsRequest, context: RequestContext, node: Any) -> ApiVersionsResponse:
    """Return the APIs of this listener and the finalized features.

    A client that wanted another node gets REBOOTSTRAP_REQUIRED: the address that it used now belongs to this node.
    """
    if context.api_version >= NODE_VERSION and (request.cluster_id is None) != (request.node_id == NO_NODE):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if context.api_version >= 3:
        if not (
            _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.peer.client_software = (request.client_software_name, request.client_software_version)
    if request.cluster_id is not None and _is_misrouted(request, context, node):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    response = ApiVersionsResponse(api_keys=node.registry.api_versions)
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
        if low > 0 or context.api_version >= 4
    ]
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in sorted(node.finalized_features().items())
    ]
    response.finalized_features_epoch = node.metadata.offset
    return response


def _is_misrouted(request: ApiVersionsRequest, context: RequestContext, node: Any) -> bool:
    """Whether the request names another cluster or broker. As in Kafka, controllers do not check this, nor do brokers
    before authentication."""
    if node.registry.listener != BROKER or not context.peer.proven:
        return False
    return bool(request.cluster_id != node.cluster_id or request.node_id != node.replicas.node_id)


def unsupported_version_reply(correlation_id: int, node: Any) -> Reply:
    """The reply to an unknown version of ApiVersions: a version 0 body with error 35 and the supported range
    (KIP-511)."""
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    response.api_keys = [ApiVersion(api_key=API.key, min_version=API.min_version, max_version=API.max_version)]
    out = bytearray(8)
    response.encode_into(out, 0)
    struct.pack_into(">ii", out, 0, len(out) - 4, correlation_id)
    return Reply((out,))
