"""Configuration of topics, brokers, the cluster (a broker without a name), groups and client-metrics subscriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.admin.errors import UNKNOWN_TOPIC, Refused, check
from kraft.admin.transport import AdminTransport
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from kraft.protocol.messages.list_config_resources_response import ListConfigResourcesResponse

TOPIC = 2
BROKER = 4
CLIENT_METRICS = 16
GROUP = 32
KINDS: Mapping[str, int] = {"topic": TOPIC, "broker": BROKER, "client-metrics": CLIENT_METRICS, "group": GROUP}

KIND_NAMES: Mapping[int, str] = {kind: name for name, kind in KINDS.items()}

SET, DELETE, APPEND, SUBTRACT = range(4)
RESOURCES_A_REQUEST = 1_000

SOURCES: Mapping[int, str] = {
    0: "unknown",
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "static",
    5: "default",
    6: "broker-logger",
    7: "client-metrics",
    8: "group",
}
"""The sources of values, with their numbers in `DescribeConfigsResponse`."""
TYPES: Mapping[int, str] = {
    0: "unknown",
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """A configured resource. A broker's name is its id; the empty name means every broker of the cluster."""

    kind: int
    name: str

    @property
    def node_id(self) -> int | None:
        """The only node that can describe the resource; None if any can."""
        return int(self.name) if self.kind == BROKER and self.name.isdigit() else None

    def __str__(self) -> str:
        if self.kind == BROKER and not self.name:
            return "the cluster"
        return f"{KIND_NAMES[self.kind]} {self.name}"


@dataclass(frozen=True, slots=True)
class Setting:
    """The current value of one key. `value` is None for sensitive ones."""

    name: str
    value: str | None
    source: str
    type: str
    read_only: bool
    sensitive: bool
    documentation: str | None
    synonyms: tuple[tuple[str, str | None, str], ...]
    """Name, value and source of every setting of the key; the effective one is first."""

    @property
    def is_default(self) -> bool:
        return self.source == "default"


async def describe_configs(
    port: AdminTransport, resource: Resource, keys: Sequence[str] | None = None
) -> list[Setting]:
    """All settings of the resource, or those of `keys`, sorted by name. Raises Refused."""

    async def attempt() -> list[Setting]:
        [result] = await _describe(port, [resource], keys)
        _check(resource, result.error_code, result.error_message)
        return _settings(result)

    return await port.retrying(attempt, final=UNKNOWN_TOPIC)


async def describe_many(
    port: AdminTransport, resources: Sequence[Resource], keys: Sequence[str] | None = None
) -> list[tuple[Resource, list[Setting]]]:
    """The settings of several resources that one node can describe: all, or those of `keys`. Resources that no longer
    exist, and those that the caller may not describe, are left out. Each request has at most RESOURCES_A_REQUEST
    resources, since nodes reject very large requests."""
    found: list[tuple[Resource, list[Setting]]] = []
    for first in range(0, len(resources), RESOURCES_A_REQUEST):
        asked = resources[first : first + RESOURCES_A_REQUEST]

        async def attempt(asked: Sequence[Resource] = asked) -> list[tuple[Resource, list[Setting]]]:
            told = {
                (result.resource_type, result.resource_name): result
                for result in await _describe(port, asked, keys)
                if result.error_code == ErrorCode.NONE
            }
            answers = [(resource, told.get((resource.kind, resource.name))) for resource in asked]
            return [(resource, _settings(result)) for resource, result in answers if result is not None]

        found += await port.retrying(attempt)
    return found


async def _describe(
    port: AdminTransport, resources: Sequence[Resource], keys: Sequence[str] | None
) -> list[DescribeConfigsResult]:
    """Describe resources at the node that can describe the first, without retries."""
    wanted = [
        DescribeConfigsResource(
            resource_type=each.kind, resource_name=each.name, configuration_keys=None if keys is None else list(keys)
        )
        for each in resources
    ]
    request = DescribeConfigsRequest(resources=wanted, include_synonyms=True, include_documentation=True)
    return (await port.ask(request, DescribeConfigsResponse, node_id=resources[0].node_id)).results


def _settings(result: DescribeConfigsResult) -> list[Setting]:
    return [_setting(each) for each in sorted(result.configs, key=lambda each: each.name)]


def _setting(each: DescribeConfigsResourceResult) -> Setting:
    return Setting(
        each.name,
        each.value,
        SOURCES.get(each.config_source, str(each.config_source)),
        TYPES.get(each.config_type, str(each.config_type)),
        each.read_only,
        each.is_sensitive,
        each.documentation,
        tuple(
            (synonym.name, synonym.value, SOURCES.get(synonym.source, str(synonym.source))) for synonym in each.synonyms
        ),
    )


def _check(resource: Resource, code: int, message: str | None) -> None:
    """Raise Refused unless `code` is NONE. For a missing topic the node's message is dropped: it only repeats the
    code."""
    check(code, str(resource), None if code in UNKNOWN_TOPIC else message)


async def alter_configs(
    port: AdminTransport,
    resource: Resource,
    changes: Sequence[tuple[str, int, str | None]],
    *,
    validate_only: bool = False,
) -> None:
    """Apply `changes`, which are key, operation (SET, DELETE, APPEND, SUBTRACT) and value: all of them or none. Raises
    Refused."""
    entries = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    wanted = AlterConfigsResource(resource_type=resource.kind, resource_name=resource.name, configs=entries)
    request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=validate_only)

    async def attempt() -> None:
        response = await port.ask(request, IncrementalAlterConfigsResponse, node_id=resource.node_id)
        _check(resource, response.responses[0].error_code, response.responses[0].error_message)

    await port.retrying(attempt, final=UNKNOWN_TOPIC)


async def alter_each(port: AdminTransport, changes: Mapping[Resource, Sequence[tuple[str, int, str | None]]]) -> None:
    """Alter many resources as `alter_configs` alters one. Any node can do so, since brokers may be down. Raises Refused
    for the first that was rejected, after all others have been altered."""
    resources, refused = list(changes), None
    for first in range(0, len(resources), RESOURCES_A_REQUEST):
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.kind,
                    resource_name=resource.name,
                    configs=[
                        AlterableConfig(name=key, config_operation=operation, value=value)
                        for key, operation, value in changes[resource]
                    ],
                )
                for resource in resources[first : first + RESOURCES_A_REQUEST]
            ]
        )

        async def attempt(request: IncrementalAlterConfigsRequest = request) -> None:
            for each in (await port.ask(request, IncrementalAlterConfigsResponse)).responses:
                _check(Resource(each.resource_type, each.resource_name), each.error_code, each.error_message)

        try:
            await port.retrying(attempt, final=UNKNOWN_TOPIC)
        except Refused as problem:
            refused = refused or problem
    if refused is not None:
        raise refused


async def list_resources(port: AdminTransport, kinds: Sequence[int]) -> list[Resource]:
    """All resources of those kinds that exist or have configs, sorted by kind and name (KIP-1142)."""

    async def attempt() -> list[Resource]:
        response = await port.ask(ListConfigResourcesRequest(resource_types=list(kinds)), ListConfigResourcesResponse)
        check(response.error_code, "configured resources")
        found = [Resource(each.resource_type, each.resource_name) for each in response.config_resources]
        return sorted(found, key=lambda resource: (resource.kind, resource.name))

    return await port.retrying(attempt)
