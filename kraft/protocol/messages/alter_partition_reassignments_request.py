"""AlterPartitionReassignmentsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ReassignablePartition(Struct):
    __slots__ = ("partition_index", "replicas", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    replicas: []int32 0+ nullable=0+ default=null entity=brokerId
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas
        self.unknown_tags = unknown_tags


class ReassignableTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []ReassignablePartition 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ReassignablePartition] | tuple[ReassignablePartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[ReassignablePartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class AlterPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics", "unknown_tags")
    API_KEY = 45
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    timeout_ms: int32 0+ default=60000
    allow_replication_factor_change: bool 1+ default=true
    topics: []ReassignableTopic 0+
    """

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] | tuple[ReassignableTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics: list[ReassignableTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
