"""DescribeTopicPartitionsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicRequest(Struct):
    __slots__ = ("name", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    """

    def __init__(
        self,
        *,
        name: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.unknown_tags = unknown_tags


class Cursor(Struct):
    __slots__ = ("topic_name", "partition_index", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName
    partition_index: int32 0+
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
        self.unknown_tags = unknown_tags


class DescribeTopicPartitionsRequest(Message):
    __slots__ = ("topics", "response_partition_limit", "cursor", "unknown_tags")
    API_KEY = 75
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    topics: []TopicRequest 0+
    response_partition_limit: int32 0+ default=2000
    cursor: Cursor 0+ nullable=0+ default=null
    """

    def __init__(
        self,
        *,
        topics: list[TopicRequest] | tuple[TopicRequest, ...] = (),
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[TopicRequest] = list(topics) if isinstance(topics, tuple) else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor
        self.unknown_tags = unknown_tags
