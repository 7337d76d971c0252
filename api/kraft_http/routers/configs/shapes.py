"""What the configuration routes share: naming a resource, shaping an entry, altering, and what counts as not found."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Response

from kraft.common.config.alterations import Operation
from kraft.common.config.describe import SOURCE_NAMES, ConfigSource
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.types import TYPE_NAMES
from kraft.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from kraft_http.deps import ClusterContext
from kraft_http.errors import ApiProblem
from kraft_http.kafka.configs import Change, ConfigTarget, UnknownConfig, alter_configs, describe_config
from kraft_http.models.common import ResourceMetadata
from kraft_http.models.configs import (
    AlterConfigsBody,
    AlterOperation,
    BrokerConfigData,
    ClusterConfigData,
    ConfigSynonymData,
    GroupConfigData,
    TopicConfigData,
)

_OPERATIONS: Final = {
    AlterOperation.SET: Operation.SET,
    AlterOperation.DELETE: Operation.DELETE,
    AlterOperation.APPEND: Operation.APPEND,
    AlterOperation.SUBTRACT: Operation.SUBTRACT,
}

CLUSTER_DEFAULT: Final = ConfigTarget(ResourceType.BROKER, "")


def topic_target(name: str) -> ConfigTarget:
    return ConfigTarget(ResourceType.TOPIC, name)


def broker_target(broker_id: int) -> ConfigTarget:
    """Only the broker itself knows its static values, so it is the one to ask."""
    return ConfigTarget(ResourceType.BROKER, str(broker_id), broker_id)


def group_target(group_id: str) -> ConfigTarget:
    return ConfigTarget(ResourceType.GROUP, group_id)


async def alter_config(cluster: ClusterContext, target: ConfigTarget, body: AlterConfigsBody) -> Response:
    """Several changes at once: all of them or none."""
    changes = []
    for entry in body.data:
        operation = _OPERATIONS[entry.operation or AlterOperation.SET]
        if operation != Operation.DELETE and entry.value is None:
            raise ApiProblem(400, f"{entry.name} needs a value, or the operation DELETE.", error_code=40002)
        changes.append(Change(entry.name, operation, None if operation == Operation.DELETE else entry.value))
    if changes:
        await alter_configs(cluster.kafka, target, changes, validate_only=body.validate_only)
    return Response(status_code=204)


async def set_config(cluster: ClusterContext, target: ConfigTarget, name: str, value: str | None) -> Response:
    """A null value resets, as in REST v3."""
    operation = Operation.DELETE if value is None else Operation.SET
    await alter_configs(cluster.kafka, target, [Change(name, operation, value)])
    return Response(status_code=204)


async def reset_config(cluster: ClusterContext, target: ConfigTarget, name: str) -> Response:
    await alter_configs(cluster.kafka, target, [Change(name, Operation.DELETE, None)])
    return Response(status_code=204)


async def one_config(cluster: ClusterContext, target: ConfigTarget, name: str) -> DescribeConfigsResourceResult:
    """Raises ApiProblem 404 for a name that the resource does not have."""
    try:
        return await describe_config(cluster.kafka, target, name)
    except UnknownConfig as problem:
        raise ApiProblem(404, problem.sentence, hint="docs/configuration.md lists every key.") from problem


def topic_config_data(
    cluster: ClusterContext, topic_name: str, config: DescribeConfigsResourceResult
) -> TopicConfigData:
    metadata = _metadata(
        cluster, ("topics", topic_name, "configs", config.name), f"topic={topic_name}", f"config={config.name}"
    )
    return TopicConfigData(kind="KafkaTopicConfig", topic_name=topic_name, **_entry(cluster, metadata, config))


def broker_config_data(
    cluster: ClusterContext, broker_id: int, config: DescribeConfigsResourceResult
) -> BrokerConfigData:
    metadata = _metadata(
        cluster, ("brokers", broker_id, "configs", config.name), f"broker={broker_id}", f"config={config.name}"
    )
    return BrokerConfigData(kind="KafkaBrokerConfig", broker_id=broker_id, **_entry(cluster, metadata, config))


def cluster_config_data(cluster: ClusterContext, config: DescribeConfigsResourceResult) -> ClusterConfigData:
    metadata = _metadata(cluster, ("broker-configs", config.name), f"broker-config={config.name}")
    return ClusterConfigData(kind="KafkaClusterConfig", config_type="BROKER", **_entry(cluster, metadata, config))


def group_config_data(cluster: ClusterContext, group_id: str, config: DescribeConfigsResourceResult) -> GroupConfigData:
    metadata = _metadata(
        cluster,
        ("consumer-groups", group_id, "configs", config.name),
        f"consumer-group={group_id}",
        f"config={config.name}",
    )
    return GroupConfigData(kind="KafkaGroupConfig", consumer_group_id=group_id, **_entry(cluster, metadata, config))


def _metadata(cluster: ClusterContext, path: tuple[object, ...], *names: str) -> ResourceMetadata:
    return ResourceMetadata(self=cluster.links.to(*path), resource_name=cluster.links.name(*names))


def _entry(
    cluster: ClusterContext, metadata: ResourceMetadata, config: DescribeConfigsResourceResult
) -> dict[str, Any]:
    return {
        "metadata": metadata,
        "cluster_id": cluster.cluster_id,
        "name": config.name,
        "value": config.value,
        "is_default": config.config_source == ConfigSource.DEFAULT,
        "is_read_only": config.read_only,
        "is_sensitive": config.is_sensitive,
        "source": _source_name(config.config_source),
        "synonyms": [
            ConfigSynonymData(name=synonym.name, value=synonym.value, source=_source_name(synonym.source))
            for synonym in config.synonyms
        ],
        "type": TYPE_NAMES.get(config.config_type),
        "documentation": config.documentation or None,
    }


def _source_name(source: int) -> str:
    return SOURCE_NAMES[source] if 0 <= source < len(SOURCE_NAMES) else SOURCE_NAMES[ConfigSource.UNKNOWN]
