"""Shared parts of the configuration routes: naming a resource, shaping an entry, altering, and the 404s."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Response

from kraft.admin.configs import BROKER, GROUP, SOURCES, TOPIC, TYPES, Resource, Setting, alter_configs, describe_configs
from kraft.common.config.dynamic.alterations import Operation
from kraft.common.config.dynamic.describe import SOURCE_NAMES, ConfigSource
from kraft.common.config.types import TYPE_NAMES
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
from kraft_http.requests.deps import ClusterContext
from kraft_http.requests.errors import ApiProblem

_OPERATIONS: Final = {
    AlterOperation.SET: Operation.SET,
    AlterOperation.DELETE: Operation.DELETE,
    AlterOperation.APPEND: Operation.APPEND,
    AlterOperation.SUBTRACT: Operation.SUBTRACT,
}

CLUSTER_DEFAULT: Final = Resource(BROKER, "")
_SOURCE_NUMBERS: Final = {word: number for number, word in SOURCES.items()}
_TYPE_NUMBERS: Final = {word: number for number, word in TYPES.items()}


def topic_target(name: str) -> Resource:
    return Resource(TOPIC, name)


def broker_target(broker_id: int) -> Resource:
    """The config resource of one broker. Only that broker itself can describe its static values."""
    return Resource(BROKER, str(broker_id))


def group_target(group_id: str) -> Resource:
    return Resource(GROUP, group_id)


async def alter_config(cluster: ClusterContext, target: Resource, body: AlterConfigsBody) -> Response:
    """Apply several changes: all of them or none."""
    changes = []
    for entry in body.data:
        operation = _OPERATIONS[entry.operation or AlterOperation.SET]
        if operation != Operation.DELETE and entry.value is None:
            raise ApiProblem(400, f"{entry.name} needs a value, or the operation DELETE.", error_code=40002)
        changes.append((entry.name, operation, None if operation == Operation.DELETE else entry.value))
    if changes:
        await alter_configs(cluster.kafka, target, changes, validate_only=body.validate_only)
    return Response(status_code=204)


async def set_config(cluster: ClusterContext, target: Resource, name: str, value: str | None) -> Response:
    """Set one config. A null value resets it, as in REST v3."""
    operation = Operation.DELETE if value is None else Operation.SET
    await alter_configs(cluster.kafka, target, [(name, operation, value)])
    return Response(status_code=204)


async def reset_config(cluster: ClusterContext, target: Resource, name: str) -> Response:
    await alter_configs(cluster.kafka, target, [(name, Operation.DELETE, None)])
    return Response(status_code=204)


async def one_config(cluster: ClusterContext, target: Resource, name: str) -> Setting:
    """One config of the resource. Raises ApiProblem 404 for an unknown name."""
    for setting in await describe_configs(cluster.kafka, target, [name]):
        if setting.name == name:
            return setting
    raise ApiProblem(404, f"there is no configuration {name}", hint="`kraft docs configuration` lists every key.")


def topic_config_data(cluster: ClusterContext, topic_name: str, config: Setting) -> TopicConfigData:
    metadata = _metadata(
        cluster, ("topics", topic_name, "configs", config.name), f"topic={topic_name}", f"config={config.name}"
    )
    return TopicConfigData(kind="KafkaTopicConfig", topic_name=topic_name, **_entry(cluster, metadata, config))


def broker_config_data(cluster: ClusterContext, broker_id: int, config: Setting) -> BrokerConfigData:
    metadata = _metadata(
        cluster, ("brokers", broker_id, "configs", config.name), f"broker={broker_id}", f"config={config.name}"
    )
    return BrokerConfigData(kind="KafkaBrokerConfig", broker_id=broker_id, **_entry(cluster, metadata, config))


def cluster_config_data(cluster: ClusterContext, config: Setting) -> ClusterConfigData:
    metadata = _metadata(cluster, ("broker-configs", config.name), f"broker-config={config.name}")
    return ClusterConfigData(kind="KafkaClusterConfig", config_type="BROKER", **_entry(cluster, metadata, config))


def group_config_data(cluster: ClusterContext, group_id: str, config: Setting) -> GroupConfigData:
    metadata = _metadata(
        cluster,
        ("consumer-groups", group_id, "configs", config.name),
        f"consumer-group={group_id}",
        f"config={config.name}",
    )
    return GroupConfigData(kind="KafkaGroupConfig", consumer_group_id=group_id, **_entry(cluster, metadata, config))


def _metadata(cluster: ClusterContext, path: tuple[object, ...], *names: str) -> ResourceMetadata:
    return ResourceMetadata(self=cluster.links.to(*path), resource_name=cluster.links.name(*names))


def _entry(cluster: ClusterContext, metadata: ResourceMetadata, config: Setting) -> dict[str, Any]:
    return {
        "metadata": metadata,
        "cluster_id": cluster.cluster_id,
        "name": config.name,
        "value": config.value,
        "is_default": config.is_default,
        "is_read_only": config.read_only,
        "is_sensitive": config.sensitive,
        "source": _source_name(config.source),
        "synonyms": [
            ConfigSynonymData(name=synonym, value=value, source=_source_name(source))
            for synonym, value, source in config.synonyms
        ],
        "type": TYPE_NAMES.get(_TYPE_NUMBERS.get(config.type, -1)),
        "documentation": config.documentation or None,
    }


def _source_name(word: str) -> str:
    """Kafka's name of a config source of `SOURCES`."""
    return SOURCE_NAMES[_SOURCE_NUMBERS.get(word, ConfigSource.UNKNOWN)]
