"""AlterShareGroupOffsetsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AlterShareGroupOffsetsRequestPartition(Struct):
    __slots__ = ("partition_index", "start_offset", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    start_offset: int64 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.unknown_tags = unknown_tags


class AlterShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName key
    partitions: []AlterShareGroupOffsetsRequestPartition 0+
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterShareGroupOffsetsRequestPartition] | tuple[AlterShareGroupOffsetsRequestPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[AlterShareGroupOffsetsRequestPartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class AlterShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics", "unknown_tags")
    API_KEY = 91
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    group_id: string 0+ entity=groupId
    topics: []AlterShareGroupOffsetsRequestTopic 0+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[AlterShareGroupOffsetsRequestTopic] | tuple[AlterShareGroupOffsetsRequestTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[AlterShareGroupOffsetsRequestTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
