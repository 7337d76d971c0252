"""DescribeProducersRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicRequest(Struct):
    __slots__ = ("name", "partition_indexes", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
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


class DescribeProducersRequest(Message):
    __slots__ = ("topics", "unknown_tags")
    API_KEY = 61
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    topics: []TopicRequest 0+
    """

    def __init__(
        self,
        *,
        topics: list[TopicRequest] | tuple[TopicRequest, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[TopicRequest] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
