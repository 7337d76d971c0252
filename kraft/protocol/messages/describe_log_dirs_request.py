"""DescribeLogDirsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribableLogDirTopic(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")
    SCHEMA = """
    topic: string 0+ entity=topicName key
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class DescribeLogDirsRequest(Message):
    __slots__ = ("topics", "unknown_tags")
    API_KEY = 35
    VALID_VERSIONS = (1, 5)
    FLEXIBLE_VERSIONS = (2, 5)
    SCHEMA = """
    topics: []DescribableLogDirTopic 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        topics: list[DescribableLogDirTopic] | tuple[DescribableLogDirTopic, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[DescribableLogDirTopic] | None = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
