"""DescribeConfigs (KIP-133, KIP-226, KIP-569): values, sources, synonyms and documentation.

Brokers describe themselves, topics, groups and client metrics. Status keys (`kraft.common.status_keys`) are returned
only if the request names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kraft.common.config.dynamic.describe import (
    BrokerLayers,
    ConfigSource,
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_loggers,
    describe_topic,
)
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.types import ConfigType
from kraft.common.errors import ApiError
from kraft.common.status_keys import STATUS_KEYS, TOPIC_GROUPS, pages_of
from kraft.handlers.errors import EXPECTED, code_of, message_of
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of
from kraft.handlers.security.permissions import OnEach, config_resource
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
from kraft.security.acls import Operation
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import NodeServices

_PERMISSION = OnEach(
    "resources",
    "results",
    lambda item, *_: config_resource(item.resource_type, item.resource_name, Operation.DESCRIBE_CONFIGS),
    tells_why=True,
)
API = Handler(ApiKey.DESCRIBE_CONFIGS, between(1, 4), permission=_PERMISSION, listeners=(BROKER,))
CONTROLLER_API = Handler(ApiKey.DESCRIBE_CONFIGS, between(1, 4), permission=_PERMISSION, listeners=(CONTROLLER,))

CONFIGS_MAX = 400_000
"""Limit of keys in a response: those of ten thousand topics."""
KEYS_MAX = 2000
CONFIG_ITEMS = 2
"""Cost of a described key, in items of a turn."""
STATUSES_MAX = 100
"""Limit of status keys in a request."""


async def describe_configs(
    request: DescribeConfigsRequest, context: RequestContext, node: NodeServices
) -> DescribeConfigsResponse:
    """Describe each resource once, even if the request names it several times. All are read from one metadata image."""
    response = DescribeConfigsResponse()
    describer = _Describer(request, node)
    turn = Turn()
    answered: set[tuple[int, str, tuple[str, ...] | None]] = set()
    left, statuses = CONFIGS_MAX, 0
    access = access_of(context, node)
    visible = STATUS_KEYS if access is None or access.is_super else STATUS_KEYS - {TOPIC_GROUPS}
    for resource in request.resources:
        if turn.is_over():
            await turn.next()
        named = resource.configuration_keys
        wanted = None if not named else await _key_names(named, turn)
        key = (resource.resource_type, resource.resource_name, wanted)
        if key in answered:
            continue
        answered.add(key)
        result = describer.describe(resource, wanted, left)
        if wanted is not None and not result.error_code:
            statuses += await _add_statuses(result, visible.intersection(wanted), STATUSES_MAX - statuses, node)
        response.results.append(result)
        left -= len(result.configs)
        if turn.is_over(CONFIG_ITEMS * (1 + len(result.configs))):
            await turn.next()
    return response


async def _add_statuses(result: DescribeConfigsResult, keys: frozenset[str], room: int, node: NodeServices) -> int:
    """Add this node's values of the requested status keys to the result of a broker, topic, group or client. Returns
    the number of keys requested."""
    kind, name = result.resource_type, result.resource_name
    if not keys or kind == ResourceType.BROKER_LOGGER:
        return 0
    topic, group, client = (
        name if kind == each else None for each in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLIENT_METRICS)
    )
    result.configs = list(result.configs)  # The resources without values of their own share one list.
    try:
        if len(keys) > room:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"one request gets at most {STATUSES_MAX} status keys")
        for key in sorted(keys):
            document = await node.status.report(key, topic, group, client)
            for name, value in () if document is None else pages_of(key, document):
                entry = DescribeConfigsResourceResult(name=name, value=value, read_only=True)
                entry.config_source, entry.config_type = ConfigSource.UNKNOWN, ConfigType.STRING
                result.configs.append(entry)
    except EXPECTED as problem:
        result.configs = []
        result.error_code, result.error_message = code_of(problem), message_of(problem) or ""
    return len(keys)


async def _key_names(named: list[str], turn: Turn) -> tuple[str, ...]:
    """The requested keys without duplicates; at most KEYS_MAX, which is more than any resource has."""
    names: dict[str, None] = {}
    for name in named:
        if turn.is_over():
            await turn.next()
        names[name] = None
        if len(names) == KEYS_MAX:
            break
    return tuple(sorted(names))


def _failed(request: DescribeConfigsRequest, code: int, message: str | None) -> Steps[DescribeConfigsResponse]:
    response = DescribeConfigsResponse()
    for each in request.resources:
        response.results.append(
            DescribeConfigsResult(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=code,
                error_message=message,
            )
        )
        yield None
    return response


for _api in (API, CONTROLLER_API):
    _api.serve(describe_configs)
    _api.error(_failed)


class _Describer:
    """Describes the resources of one request. Values that they share are computed once."""

    def __init__(self, request: DescribeConfigsRequest, node: NodeServices) -> None:
        self._request = request
        self._node = node
        self._image = node.metadata.image
        layers = node.configs.layers(self._image)
        self._layers = layers.with_effective(node.configs.effective(self._image))
        self._encoded: dict[DescribedConfig, DescribeConfigsResourceResult] = {}
        self._plain: dict[tuple[int, tuple[str, ...] | None], list[DescribeConfigsResourceResult]] = {}

    def describe(
        self, resource: DescribeConfigsResource, names: tuple[str, ...] | None, left: int
    ) -> DescribeConfigsResult:
        """Describe one resource. It gets an error if it has more keys than `left`, the number that still fits into the
        response."""
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=""
        )
        try:
            configs = self._configs(resource.resource_type, resource.resource_name, names)
            if len(configs) > left:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"one answer describes at most {CONFIGS_MAX} keys; ask for fewer resources in a request",
                )
            result.configs = configs
        except EXPECTED as problem:
            result.error_code, result.error_message = code_of(problem), message_of(problem) or ""
        return result

    def _configs(self, kind: int, name: str, names: tuple[str, ...] | None) -> list[DescribeConfigsResourceResult]:
        image = self._image
        if kind == ResourceType.TOPIC:
            reason = reason_invalid(name)
            if reason is not None:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
            if image.topics.by_name(name) is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            topic = dict(image.configs.topic(name).items())
            return self._shared(kind, names, topic, lambda: describe_topic(topic, self._layers, names))
        if kind == ResourceType.BROKER:
            return self._encode(self._broker_configs(name, names))
        if kind == ResourceType.BROKER_LOGGER:
            _check_own(name, self._layers)
            return self._encode(describe_loggers(self._node.loggers.kafka_levels(), names))
        if kind == ResourceType.CLIENT_METRICS:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            own = dict(image.configs.of(kind, name).items())
            return self._shared(kind, names, own, lambda: describe_client_metrics(own, names))
        if kind == ResourceType.GROUP:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            own = dict(image.configs.of(kind, name).items())
            return self._shared(kind, names, own, lambda: describe_group(own, self._layers, names))
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")

    def _broker_configs(self, name: str, names: tuple[str, ...] | None) -> list[DescribedConfig]:
        if not name:
            return describe_cluster_default(self._layers.cluster, names)
        _check_own(name, self._layers)
        return describe_broker(self._layers, names)

    def _shared(
        self,
        kind: int,
        names: tuple[str, ...] | None,
        own: dict[str, str],
        describe: Callable[[], list[DescribedConfig]],
    ) -> list[DescribeConfigsResourceResult]:
        """The encoded configs of a resource. Resources of one kind without values of their own share one list."""
        if own:
            return self._encode(describe())
        plain = self._plain.get((kind, names))
        if plain is None:
            plain = self._plain[kind, names] = self._encode(describe())
        return plain

    def _encode(self, configs: list[DescribedConfig]) -> list[DescribeConfigsResourceResult]:
        return [self._result(config) for config in configs]

    def _result(self, config: DescribedConfig) -> DescribeConfigsResourceResult:
        """The encoded form of `config`. Equal configs share one object, which must not be changed."""
        result = self._encoded.get(config)
        if result is None:
            result = self._encoded[config] = _encoded(config, self._request)
        return result


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
