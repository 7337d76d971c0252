"""Configuration of topics, brokers and the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest
from kraft.protocol.messages.describe_configs_request import DescribeConfigsResource as DescribedResource
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
from kraft_http.kafka.client import Kafka, KafkaProblem, raise_for


class ConfigTarget(NamedTuple):
    """A resource on the wire: its type, its name, and the broker that must be asked (a broker knows only its own
    static values)."""

    resource_type: int
    name: str
    node_id: int | None = None


class Change(NamedTuple):
    name: str
    operation: int
    value: str | None


async def describe_configs(
    kafka: Kafka, target: ConfigTarget, names: Sequence[str] | None = None
) -> list[DescribeConfigsResourceResult]:
    """By name. Raises KafkaProblem."""
    [result] = await _describe(kafka, [target], names, target.node_id)
    _raise_for_target(target, result.error_code, result.error_message)
    return sorted(result.configs, key=lambda config: config.name)


async def describe_many(
    kafka: Kafka, targets: Sequence[ConfigTarget]
) -> list[tuple[ConfigTarget, list[DescribeConfigsResourceResult]]]:
    """Several resources that one broker can describe, in one request; those that have gone meanwhile are left out."""
    if not targets:
        return []
    results = await _describe(kafka, targets, None, targets[0].node_id)
    by_name = {
        (result.resource_type, result.resource_name): result
        for result in results
        if result.error_code == ErrorCode.NONE
    }
    found = [(target, by_name.get((target.resource_type, target.name))) for target in targets]
    return [
        (target, sorted(result.configs, key=lambda config: config.name))
        for target, result in found
        if result is not None
    ]


async def _describe(
    kafka: Kafka, targets: Sequence[ConfigTarget], names: Sequence[str] | None, node_id: int | None
) -> list[DescribeConfigsResult]:
    keys = None if names is None else list(names)
    resources = [
        DescribedResource(resource_type=target.resource_type, resource_name=target.name, configuration_keys=keys)
        for target in targets
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    response = await kafka.ask(ApiKey.DESCRIBE_CONFIGS, 4, request, DescribeConfigsResponse, node_id)
    return response.results


async def describe_config(kafka: Kafka, target: ConfigTarget, name: str) -> DescribeConfigsResourceResult:
    """One key. Raises KafkaProblem, also for a name that the resource does not have."""
    for config in await describe_configs(kafka, target, [name]):
        if config.name == name:
            return config
    raise UnknownConfig(name)


class UnknownConfig(KafkaProblem):
    """The resource has no key of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, f"there is no configuration {name}")


async def alter_configs(
    kafka: Kafka, target: ConfigTarget, changes: Sequence[Change], *, validate_only: bool = False
) -> None:
    alterable = [
        AlterableConfig(name=change.name, config_operation=change.operation, value=change.value) for change in changes
    ]
    resource = AlterConfigsResource(resource_type=target.resource_type, resource_name=target.name, configs=alterable)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    response = await kafka.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, IncrementalAlterConfigsResponse, target.node_id
    )
    _raise_for_target(target, response.responses[0].error_code, response.responses[0].error_message)


def _raise_for_target(target: ConfigTarget, code: int, message: str | None) -> None:
    """Raise KafkaProblem unless `code` is NONE. A topic that does not exist is named."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise KafkaProblem(code, subject=f"topic {target.name}")
    raise_for(code, message)
