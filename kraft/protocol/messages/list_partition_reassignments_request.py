"""ListPartitionReassignmentsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ListPartitionReassignmentsTopics(Struct):
    __slots__ = ("name", "partition_indexes", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partition_indexes: []int32 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partition_indexes: list[int] = list(partition_indexes) if isinstance(partition_indexes, tuple) else partition_indexes
        self.unknown_tags = unknown_tags


class ListPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "topics", "unknown_tags")
    API_KEY = 46
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    timeout_ms: int32 0+ default=60000
    topics: []ListPartitionReassignmentsTopics 0+ nullable=0+ default=null
    """

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsTopics] | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics
        self.unknown_tags = unknown_tags
