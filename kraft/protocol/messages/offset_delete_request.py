"""OffsetDeleteRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class OffsetDeleteRequestPartition(Struct):
    __slots__ = ("partition_index", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.unknown_tags = unknown_tags


class OffsetDeleteRequestTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
    partitions: []OffsetDeleteRequestPartition 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteRequestPartition] | tuple[OffsetDeleteRequestPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[OffsetDeleteRequestPartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class OffsetDeleteRequest(Message):
    __slots__ = ("group_id", "topics", "unknown_tags")
    API_KEY = 47
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    group_id: string 0+ entity=groupId
    topics: []OffsetDeleteRequestTopic 0+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetDeleteRequestTopic] | tuple[OffsetDeleteRequestTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetDeleteRequestTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
