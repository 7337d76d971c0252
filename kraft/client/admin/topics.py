"""Topics: create, list, grow, delete, and cut records off at the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kraft.client.cluster import UNKNOWN_TOPIC, Cluster
from kraft.client.errors import check
from kraft.client.metadata import Topic
from kraft.common.ids import TopicPartition
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState

TIMEOUT_MS = 30_000
CLUSTER_DEFAULT = -1
"""Number of partitions or replication factor: the cluster's own default."""


async def list_topics(cluster: Cluster) -> list[Topic]:
    """All topics, in order of name, internal ones too."""

    async def attempt() -> list[Topic]:
        return list((await cluster.metadata(None)).topics.values())

    return await cluster.retrying(attempt)


async def describe_topics(cluster: Cluster, names: Sequence[str]) -> list[Topic]:
    """In the order asked. Raises ApiError UNKNOWN_TOPIC_OR_PARTITION for the first that there is not."""

    async def attempt() -> list[Topic]:
        found = await cluster.metadata(names)
        return [found.topic(name) for name in names]

    return await cluster.retrying(attempt, final=UNKNOWN_TOPIC)


async def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = CLUSTER_DEFAULT,
    replication_factor: int = CLUSTER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> tuple[int, int]:
    """Number of partitions and replication factor of the new topic (-1 from nodes that do not tell). Raises ApiError
    TOPIC_ALREADY_EXISTS and others."""
    settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    wanted = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication_factor, configs=settings
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=validate_only)

    async def attempt() -> tuple[int, int]:
        result = (await cluster.call(request)).topics[0]
        check(result.error_code, f"topic {name}", result.error_message)
        return result.num_partitions, result.replication_factor

    created = await cluster.retrying(attempt)
    cluster.forget()
    return created


async def grow_topic(cluster: Cluster, name: str, partitions: int, *, validate_only: bool = False) -> None:
    """Raise the number of partitions to `partitions`. Raises ApiError INVALID_PARTITIONS unless that is more than
    there are."""
    wanted = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=validate_only)

    async def attempt() -> None:
        result = (await cluster.call(request)).results[0]
        check(result.error_code, f"topic {name}", result.error_message)

    await cluster.retrying(attempt, final=UNKNOWN_TOPIC)
    cluster.forget()


async def delete_topic(cluster: Cluster, name: str) -> None:
    """Raises ApiError UNKNOWN_TOPIC_OR_PARTITION."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=TIMEOUT_MS)

    async def attempt() -> None:
        version = await cluster.version_of(request.API_KEY)
        result = (await cluster.call(_for_version(request, version), version=version)).responses[0]
        check(result.error_code, f"topic {name}", result.error_message)

    await cluster.retrying(attempt, final=UNKNOWN_TOPIC)
    cluster.forget()


def _for_version(request: DeleteTopicsRequest, version: int) -> DeleteTopicsRequest:
    """Names moved from one field to another with version 6 (KIP-516)."""
    if version >= 6:
        return DeleteTopicsRequest(topics=request.topics, timeout_ms=request.timeout_ms)
    return DeleteTopicsRequest(topic_names=request.topic_names, timeout_ms=request.timeout_ms)


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Cut off what lies before an offset (-1: all that is there); the new first offset of each partition."""

    async def attempt() -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for leader, partitions in (await cluster.by_leader(before)).items():
            response = await cluster.call(_deletion({each: before[each] for each in partitions}), node_id=leader)
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    check(each.error_code, str(partition))
                    found[partition] = each.low_watermark
        return {partition: found[partition] for partition in before}

    return await cluster.retrying(attempt, final=UNKNOWN_TOPIC)


def _deletion(before: Mapping[TopicPartition, int]) -> Any:
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for (topic, index), offset in before.items():
        topics.setdefault(topic, []).append(DeleteRecordsPartition(partition_index=index, offset=offset))
    entries = [DeleteRecordsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    return DeleteRecordsRequest(topics=entries, timeout_ms=TIMEOUT_MS)
