"""DescribeQuorumResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class ReplicaState(Struct):
    __slots__ = ("replica_id", "replica_directory_id", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp", "unknown_tags")
    SCHEMA = """
    replica_id: int32 0+ entity=brokerId
    replica_directory_id: uuid 2+
    log_end_offset: int64 0+
    last_fetch_timestamp: int64 1+ default=-1 ignorable
    last_caught_up_timestamp: int64 1+ default=-1 ignorable
    """

    def __init__(
        self,
        *,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp
        self.unknown_tags = unknown_tags


class PartitionData(Struct):
    __slots__ = ("partition_index", "error_code", "error_message", "leader_id", "leader_epoch", "high_watermark", "current_voters", "observers", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    error_message: string 2+ nullable=2+ ignorable
    leader_id: int32 0+ entity=brokerId
    leader_epoch: int32 0+
    high_watermark: int64 0+
    current_voters: []ReplicaState 0+
    observers: []ReplicaState 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[ReplicaState] | tuple[ReplicaState, ...] = (),
        observers: list[ReplicaState] | tuple[ReplicaState, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters: list[ReplicaState] = list(current_voters) if isinstance(current_voters, tuple) else current_voters
        self.observers: list[ReplicaState] = list(observers) if isinstance(observers, tuple) else observers
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


class Listener(Struct):
    __slots__ = ("name", "host", "port", "unknown_tags")
    SCHEMA = """
    name: string 2+ key
    host: string 2+
    port: uint16 2+
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


class Node(Struct):
    __slots__ = ("node_id", "listeners", "unknown_tags")
    SCHEMA = """
    node_id: int32 2+ entity=brokerId key
    listeners: []Listener 2+
    """

    def __init__(
        self,
        *,
        node_id: int = 0,
        listeners: list[Listener] | tuple[Listener, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.node_id = node_id
        self.listeners: list[Listener] = list(listeners) if isinstance(listeners, tuple) else listeners
        self.unknown_tags = unknown_tags


class DescribeQuorumResponse(Message):
    __slots__ = ("error_code", "error_message", "topics", "nodes", "unknown_tags")
    API_KEY = 55
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (0, 2)
    SCHEMA = """
    error_code: int16 0+
    error_message: string 2+ nullable=2+ ignorable
    topics: []TopicData 0+
    nodes: []Node 2+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[TopicData] | tuple[TopicData, ...] = (),
        nodes: list[Node] | tuple[Node, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics: list[TopicData] = list(topics) if isinstance(topics, tuple) else topics
        self.nodes: list[Node] = list(nodes) if isinstance(nodes, tuple) else nodes
        self.unknown_tags = unknown_tags
