"""DescribeCluster (KIP-700, KIP-919, KIP-1073)."""

from __future__ import annotations

from typing import Any

from kraft.common.errors import ApiError
from kraft.handlers.metadata.metadata import some_live_broker
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of, cluster_operations
from kraft.handlers.security.permissions import ANYBODY, OnCluster
from kraft.metadata.metadata_cache import node_of
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kraft.security.acls import Operation

API = Handler(ApiKey.DESCRIBE_CLUSTER, between(0, 2), permission=ANYBODY, listeners=(BROKER,))
CONTROLLER_API = Handler(
    ApiKey.DESCRIBE_CLUSTER, between(0, 2), permission=OnCluster(Operation.ALTER), listeners=(CONTROLLER,)
)

BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2


@API.serve
async def describe_cluster(
    request: DescribeClusterRequest, context: RequestContext, broker: Any
) -> DescribeClusterResponse:
    """Describe the live brokers, with their endpoints on the listener of the request. From version 2 fenced brokers are
    included on request."""
    if request.endpoint_type == CONTROLLER_ENDPOINTS:
        raise ApiError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "The request was sent to an endpoint of the wrong type.")
    if request.endpoint_type != BROKER_ENDPOINTS:
        raise ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    metadata = broker.metadata
    response = DescribeClusterResponse(cluster_id=broker.cluster_id)
    for registration in metadata.image.cluster.brokers.values():
        if registration.fenced and not request.include_fenced_brokers:
            continue
        node = node_of(registration, context.peer.listener)
        if node is not None:
            response.brokers.append(
                DescribeClusterBroker(
                    broker_id=node.id, host=node.host, port=node.port, rack=node.rack, is_fenced=registration.fenced
                )
            )
    response.controller_id = some_live_broker(
        [node.id for node in metadata.live_brokers(context.peer.listener)], broker
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(access_of(context, broker))
    return response


@CONTROLLER_API.serve
async def describe_controllers(
    request: DescribeClusterRequest, context: RequestContext, node: Any
) -> DescribeClusterResponse:
    """Describe the controllers and name the active one (KIP-919)."""
    if request.endpoint_type != CONTROLLER_ENDPOINTS:
        code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == BROKER_ENDPOINTS
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        if context.api_version == 0:  # Which knows neither code.
            code = ErrorCode.INVALID_REQUEST
        raise ApiError(code, "The request was sent to an endpoint of the wrong type.")
    response = DescribeClusterResponse(
        cluster_id=node.cluster_id,
        endpoint_type=CONTROLLER_ENDPOINTS,
        controller_id=node.raft.leader_and_epoch.leader_id,
    )
    for voter_id, host, port in node.raft.voter_endpoints():
        response.brokers.append(DescribeClusterBroker(broker_id=voter_id, host=host, port=port))
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(access_of(context, node))
    return response


for _api in (API, CONTROLLER_API):

    @_api.error
    def _failed(request: DescribeClusterRequest, code: int, message: str | None) -> DescribeClusterResponse:
        return DescribeClusterResponse(error_code=code, error_message=message)
