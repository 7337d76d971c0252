"""BeginQuorumEpochRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionData(Struct):
    __slots__ = ("partition_index", "voter_directory_id", "leader_id", "leader_epoch", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    voter_directory_id: uuid 1+ ignorable
    leader_id: int32 0+ entity=brokerId
    leader_epoch: int32 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        leader_id: int = 0,
        leader_epoch: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
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


class BeginQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics", "leader_endpoints", "unknown_tags")
    API_KEY = 53
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    cluster_id: string 0+ nullable=0+ default=null
    voter_id: int32 1+ default=-1 entity=brokerId ignorable
    topics: []TopicData 0+
    leader_endpoints: []LeaderEndpoint 1+ ignorable
    """

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[TopicData] | tuple[TopicData, ...] = (),
        leader_endpoints: list[LeaderEndpoint] | tuple[LeaderEndpoint, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics: list[TopicData] = list(topics) if isinstance(topics, tuple) else topics
        self.leader_endpoints: list[LeaderEndpoint] = list(leader_endpoints) if isinstance(leader_endpoints, tuple) else leader_endpoints
        self.unknown_tags = unknown_tags
