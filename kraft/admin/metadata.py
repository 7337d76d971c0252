"""A client's view of a cluster: nodes, topics, leaders. Values made from Metadata responses; old ones stay valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kraft.admin.errors import Refused, check
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as the answering node saw it. `leader` is -1 if it has none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[Partition, ...]
    """In order of index, without gaps."""

    def partition(self, index: int) -> Partition:
        """The partition of that index. Raises ApiError UNKNOWN_TOPIC_OR_PARTITION."""
        if not 0 <= index < len(self.partitions):
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{self.name}-{index}",
                f"the topic has partitions 0 to {len(self.partitions) - 1}",
            )
        return self.partitions[index]

    def leader(self, index: int) -> int:
        """The partition's leader. Raises ApiError: LEADER_NOT_AVAILABLE while it has none,
        UNKNOWN_TOPIC_OR_PARTITION."""
        leader = self.partition(index).leader
        if leader < 0:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"{self.name}-{index}")
        return leader

    def leaders(self) -> dict[TopicPartition, int]:
        """The leader of each partition; -1 if it has none."""
        return {TopicPartition(self.name, partition.index): partition.leader for partition in self.partitions}

    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition.index) for partition in self.partitions]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One Metadata response."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    errors: Mapping[str, int]
    """Requested topics without a description, with their error codes."""

    def topic(self, name: str) -> Topic:
        """The topic of that name. Raises ApiError with the node's code, or UNKNOWN_TOPIC_OR_PARTITION if it returned
        none."""
        topic = self.topics.get(name)
        if topic is None:
            raise Refused(self.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), f"topic {name}")
        return topic


def read_metadata(response: MetadataResponse) -> ClusterMetadata:
    """Convert a response. Raises ApiError for an error of the whole response."""
    check(getattr(response, "error_code", ErrorCode.NONE), "metadata")
    brokers = {
        broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
    }
    topics, errors = {}, {}
    for topic in sorted(response.topics, key=lambda topic: topic.name or ""):
        if topic.name is None:
            continue
        if topic.error_code != ErrorCode.NONE:
            errors[topic.name] = topic.error_code
        else:
            topics[topic.name] = _topic(topic.name, topic)
    return ClusterMetadata(response.cluster_id, response.controller_id, dict(sorted(brokers.items())), topics, errors)


def _topic(name: str, topic: MetadataResponseTopic) -> Topic:
    partitions = tuple(
        Partition(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    )
    return Topic(name, bytes(topic.topic_id), topic.is_internal, partitions)
