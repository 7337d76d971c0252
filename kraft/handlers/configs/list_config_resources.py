"""ListConfigResources (KIP-1142, before that KIP-714): the names of all resources that have configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnCluster
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from kraft.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse
from kraft.security.acls import Operation

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(ApiKey.LIST_CONFIG_RESOURCES, between(0, 1), permission=OnCluster(Operation.DESCRIBE_CONFIGS))

_ALL = (
    ResourceType.CLIENT_METRICS,
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.GROUP,
)


@API.serve
async def list_config_resources(
    request: ListConfigResourcesRequest, context: RequestContext, broker: BrokerServices
) -> ListConfigResourcesResponse:
    """List the resources of the requested types; no types means all. Version 0 lists client metrics only."""
    types = (ResourceType.CLIENT_METRICS,) if context.api_version == 0 else tuple(request.resource_types) or _ALL
    for kind in types:
        if kind not in _ALL:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"config resource type {kind} cannot be listed")
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in _ALL
            if kind in types
            for name in _names(kind, broker)
        ]
    )


def _names(kind: int, broker: BrokerServices) -> list[str]:
    image = broker.metadata.image
    if kind == ResourceType.TOPIC:
        return list(image.topics.id_by_name.keys())
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(node.id) for node in image.cluster.brokers.values() if not node.fenced]
    return [resource.name for resource in image.configs.resources if resource.type == kind]
