"""EndQuorumEpochResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionData(Struct):
    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    leader_id: int32 0+ entity=brokerId
    leader_epoch: int32 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
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


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "unknown_tags")
    SCHEMA = """
    node_id: int32 1+ entity=brokerId key
    host: string 1+
    port: uint16 1+
    """

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags


class EndQuorumEpochResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints", "unknown_tags")
    API_KEY = 54
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    error_code: int16 0+
    topics: []TopicData 0+
    node_endpoints: []NodeEndpoint 1+ tag=0@1+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        topics: list[TopicData] | tuple[TopicData, ...] = (),
        node_endpoints: list[NodeEndpoint] | tuple[NodeEndpoint, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.topics: list[TopicData] = list(topics) if isinstance(topics, tuple) else topics
        self.node_endpoints: list[NodeEndpoint] = list(node_endpoints) if isinstance(node_endpoints, tuple) else node_endpoints
        self.unknown_tags = unknown_tags
