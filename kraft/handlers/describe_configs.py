"""DescribeConfigs (KIP-133, KIP-226, KIP-569):

values, sources, synonyms and documentation. Brokers answer for themselves, topics, groups and client metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.config.describe import (
    BrokerLayers,
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_loggers,
    describe_topic,
)
from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError
from kraft.handlers.errors import EXPECTED, code_of, message_of
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.metadata.topic_names import reason_invalid
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from kraft.handlers.services import NodeServices

API = Handler(ApiKey.DESCRIBE_CONFIGS, between(1, 4), listeners=(BROKER,))
CONTROLLER_API = Handler(ApiKey.DESCRIBE_CONFIGS, between(1, 4), listeners=(CONTROLLER,))


async def describe_configs(
    request: DescribeConfigsRequest, context: RequestContext, node: NodeServices
) -> DescribeConfigsResponse:
    """Each resource answers for itself."""
    return DescribeConfigsResponse(results=[_describe(resource, request, node) for resource in request.resources])


def _failed(request: DescribeConfigsRequest, code: int, message: str | None) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=code,
                error_message=message,
            )
            for each in request.resources
        ]
    )


for _api in (API, CONTROLLER_API):
    _api.serve(describe_configs)
    _api.error(_failed)


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, node: NodeServices
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=""
    )
    try:
        names = resource.configuration_keys or None
        configs = _configs(resource.resource_type, resource.resource_name, names, node)
        result.configs = [_encoded(config, request) for config in configs]
    except EXPECTED as problem:
        result.error_code, result.error_message = code_of(problem), message_of(problem) or ""
    return result


def _configs(kind: int, name: str, names: list[str] | None, node: NodeServices) -> list[DescribedConfig]:
    image = node.metadata.image
    layers = node.configs.layers(image)
    if kind == ResourceType.TOPIC:
        reason = reason_invalid(name)
        if reason is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if image.topics.by_name(name) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return describe_topic(dict(image.configs.topic(name).items()), layers, names)
    if kind == ResourceType.BROKER:
        return _broker_configs(name, names, layers)
    if kind == ResourceType.BROKER_LOGGER:
        _check_own(name, layers)
        return describe_loggers(node.loggers.kafka_levels(), names)
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(dict(image.configs.of(kind, name).items()), names)
    if kind == ResourceType.GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(dict(image.configs.of(kind, name).items()), layers, names)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


def _broker_configs(name: str, names: list[str] | None, layers: BrokerLayers) -> list[DescribedConfig]:
    if not name:
        return describe_cluster_default(layers.cluster, names)
    _check_own(name, layers)
    return describe_broker(layers, names)


def _check_own(name: str, layers: BrokerLayers) -> None:
    try:
        wanted = int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if wanted != layers.static.node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {layers.static.node_id}, but received {name}"
        )


def _encoded(config: DescribedConfig, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = config.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms
        ],
        config_type=config.type,
        documentation=config.documentation if request.include_documentation else None,
    )
