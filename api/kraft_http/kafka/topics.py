"""Topics and their partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kraft_http.kafka.client import Kafka, KafkaProblem, raise_for

TIMEOUT_MS = 30_000
_HARMLESS = (
    ErrorCode.NONE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.LISTENER_NOT_FOUND,
)


async def describe_topics(kafka: Kafka, names: Sequence[str] | None = None) -> list[MetadataResponseTopic]:
    """All topics, or the named ones, by name. Never creates one. Raises KafkaProblem for the first that is missing."""
    wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    response = await kafka.ask(ApiKey.METADATA, 12, request, MetadataResponse)
    for topic in response.topics:
        if topic.error_code not in _HARMLESS:
            raise KafkaProblem(topic.error_code, subject=f"topic {topic.name}")
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    return sorted(response.topics, key=lambda topic: topic.name or "")


async def describe_topic(kafka: Kafka, name: str) -> MetadataResponseTopic:
    [topic] = await describe_topics(kafka, [name])
    return topic


async def describe_partition(kafka: Kafka, name: str, partition_id: int) -> MetadataResponsePartition:
    topic = await describe_topic(kafka, name)
    return partition_of(topic, partition_id)


def partition_of(topic: MetadataResponseTopic, partition_id: int) -> MetadataResponsePartition:
    """Raises KafkaProblem."""
    for partition in topic.partitions:
        if partition.partition_index == partition_id:
            return partition
    raise KafkaProblem(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"topic {topic.name} has {len(topic.partitions)} partitions, and {partition_id} is none of them",
    )


async def create_topic(
    kafka: Kafka,
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    assignments: Mapping[int, Sequence[int]],
    configs: Mapping[str, str | None],
    validate_only: bool,
) -> CreatableTopicResult:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in sorted(assignments.items())
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    response = await kafka.ask(ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse)
    result = response.topics[0]
    raise_for(result.error_code, result.error_message)
    return result


async def delete_topic(kafka: Kafka, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS)
    response = await kafka.ask(ApiKey.DELETE_TOPICS, 6, request, DeleteTopicsResponse)
    raise_for(response.responses[0].error_code, subject=f"topic {name}")


async def create_partitions(kafka: Kafka, name: str, count: int, *, validate_only: bool = False) -> None:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    response = await kafka.ask(ApiKey.CREATE_PARTITIONS, 3, request, CreatePartitionsResponse)
    result = response.results[0]
    if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise KafkaProblem(result.error_code, subject=f"topic {name}")
    raise_for(result.error_code, result.error_message)
