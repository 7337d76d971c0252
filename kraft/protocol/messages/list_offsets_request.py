"""ListOffsetsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ListOffsetsPartition(Struct):
    __slots__ = ("partition_index", "current_leader_epoch", "timestamp", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    current_leader_epoch: int32 4+ default=-1 ignorable
    timestamp: int64 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp
        self.unknown_tags = unknown_tags


class ListOffsetsTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []ListOffsetsPartition 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartition] | tuple[ListOffsetsPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[ListOffsetsPartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class ListOffsetsRequest(Message):
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms", "unknown_tags")
    API_KEY = 2
    VALID_VERSIONS = (1, 11)
    FLEXIBLE_VERSIONS = (6, 11)
    SCHEMA = """
    replica_id: int32 0+ entity=brokerId
    isolation_level: int8 2+
    topics: []ListOffsetsTopic 0+
    timeout_ms: int32 10+ ignorable
    """

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] | tuple[ListOffsetsTopic, ...] = (),
        timeout_ms: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics: list[ListOffsetsTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags
