"""Topics: create, list, grow and delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.admin.errors import UNKNOWN_TOPIC, check
from kraft.admin.metadata import Topic
from kraft.admin.transport import AdminTransport
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse

TIMEOUT_MS = 30_000
CLUSTER_DEFAULT = -1
"""Number of partitions or replication factor: the cluster's own default."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic. -1 and zeros if the node does not return the values."""

    topic_id: bytes
    partitions: int
    replication_factor: int


async def list_topics(port: AdminTransport) -> list[Topic]:
    """All topics sorted by name, internal ones included."""

    async def attempt() -> list[Topic]:
        return list((await port.metadata(None)).topics.values())

    return await port.retrying(attempt)


async def describe_topics(port: AdminTransport, names: Sequence[str]) -> list[Topic]:
    """The topics, in the order of `names`. Raises Refused UNKNOWN_TOPIC_OR_PARTITION for the first that does not
    exist."""

    async def attempt() -> list[Topic]:
        found = await port.metadata(names)
        return [found.topic(name) for name in names]

    return await port.retrying(attempt, final=UNKNOWN_TOPIC)


async def describe_topic(port: AdminTransport, name: str) -> Topic:
    """One topic. Raises Refused UNKNOWN_TOPIC_OR_PARTITION."""
    [topic] = await describe_topics(port, [name])
    return topic


async def create_topic(
    port: AdminTransport,
    name: str,
    *,
    partitions: int = CLUSTER_DEFAULT,
    replication_factor: int = CLUSTER_DEFAULT,
    assignments: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
    validate_only: bool = False,
) -> CreatedTopic:
    """Create a topic. `assignments` are the brokers of each partition, in place of the two counts. Raises Refused
    TOPIC_ALREADY_EXISTS and others."""
    settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in sorted((assignments or {}).items())
        ],
        configs=settings,
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=validate_only)

    async def attempt() -> CreatedTopic:
        result = (await port.ask(request, CreateTopicsResponse)).topics[0]
        check(result.error_code, f"topic {name}", result.error_message)
        return CreatedTopic(bytes(result.topic_id), result.num_partitions, result.replication_factor)

    created = await port.retrying(attempt)
    port.forget()
    return created


async def grow_topic(port: AdminTransport, name: str, partitions: int, *, validate_only: bool = False) -> None:
    """Raise the number of partitions to `partitions`. Raises Refused INVALID_PARTITIONS if the topic already has as
    many."""
    wanted = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=validate_only)

    async def attempt() -> None:
        result = (await port.ask(request, CreatePartitionsResponse)).results[0]
        message = None if result.error_code in UNKNOWN_TOPIC else result.error_message  # It says no more than the code.
        check(result.error_code, f"topic {name}", message)

    await port.retrying(attempt, final=UNKNOWN_TOPIC)
    port.forget()


async def delete_topic(port: AdminTransport, name: str) -> None:
    """Delete a topic. Raises Refused UNKNOWN_TOPIC_OR_PARTITION."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=TIMEOUT_MS)

    async def attempt() -> None:
        version = await port.version_of(request.API_KEY)
        asked = _for_version(request, version)
        result = (await port.ask(asked, DeleteTopicsResponse, version=version)).responses[0]
        check(result.error_code, f"topic {name}", result.error_message)

    await port.retrying(attempt, final=UNKNOWN_TOPIC)
    port.forget()


def _for_version(request: DeleteTopicsRequest, version: int) -> DeleteTopicsRequest:
    """The request with the names in the field of the version: they moved with version 6 (KIP-516)."""
    if version >= 6:
        return DeleteTopicsRequest(topics=request.topics, timeout_ms=request.timeout_ms)
    return DeleteTopicsRequest(topic_names=request.topic_names, timeout_ms=request.timeout_ms)
