"""EndQuorumEpochRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class ReplicaInfo(Struct):
    __slots__ = ("candidate_id", "candidate_directory_id", "unknown_tags")
    SCHEMA = """
    candidate_id: int32 1+ entity=brokerId
    candidate_directory_id: uuid 1+
    """

    def __init__(
        self,
        *,
        candidate_id: int = 0,
        candidate_directory_id: bytes = ZERO_UUID,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id
        self.unknown_tags = unknown_tags


class PartitionData(Struct):
    __slots__ = ("partition_index", "leader_id", "leader_epoch", "preferred_successors", "preferred_candidates", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    leader_id: int32 0+ entity=brokerId
    leader_epoch: int32 0+
    preferred_successors: []int32 0 ignorable
    preferred_candidates: []ReplicaInfo 1+ ignorable
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        preferred_successors: list[int] | tuple[int, ...] = (),
        preferred_candidates: list[ReplicaInfo] | tuple[ReplicaInfo, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors: list[int] = list(preferred_successors) if isinstance(preferred_successors, tuple) else preferred_successors
        self.preferred_candidates: list[ReplicaInfo] = list(preferred_candidates) if isinstance(preferred_candidates, tuple) else preferred_candidates
        self.unknown_tags = unknown_tags


class TopicData(Struct):
    __slots__ = ("topic_name", "partitions", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName
    partitions: []PartitionData 0+
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[PartitionData] | tuple[PartitionData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionData] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class LeaderEndpoint(Struct):
    __slots__ = ("name", "host", "port", "unknown_tags")
    SCHEMA = """
    name: string 1+ key
    host: string 1+
    port: uint16 1+
    """

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags


class EndQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "topics", "leader_endpoints", "unknown_tags")
    API_KEY = 54
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    cluster_id: string 0+ nullable=0+ default=null
    topics: []TopicData 0+
    leader_endpoints: []LeaderEndpoint 1+ ignorable
    """

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        topics: list[TopicData] | tuple[TopicData, ...] = (),
        leader_endpoints: list[LeaderEndpoint] | tuple[LeaderEndpoint, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.topics: list[TopicData] = list(topics) if isinstance(topics, tuple) else topics
        self.leader_endpoints: list[LeaderEndpoint] = list(leader_endpoints) if isinstance(leader_endpoints, tuple) else leader_endpoints
        self.unknown_tags = unknown_tags
