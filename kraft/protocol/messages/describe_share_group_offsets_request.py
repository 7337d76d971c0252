"""DescribeShareGroupOffsetsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribeShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class DescribeShareGroupOffsetsRequestGroup(Struct):
    __slots__ = ("group_id", "topics", "unknown_tags")
    SCHEMA = """
    group_id: string 0+ entity=groupId
    topics: []DescribeShareGroupOffsetsRequestTopic 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsRequestTopic] | tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DescribeShareGroupOffsetsRequestTopic] | None = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags


class DescribeShareGroupOffsetsRequest(Message):
    __slots__ = ("groups", "unknown_tags")
    API_KEY = 90
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    groups: []DescribeShareGroupOffsetsRequestGroup 0+
    """

    def __init__(
        self,
        *,
        groups: list[DescribeShareGroupOffsetsRequestGroup] | tuple[DescribeShareGroupOffsetsRequestGroup, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.groups: list[DescribeShareGroupOffsetsRequestGroup] = list(groups) if isinstance(groups, tuple) else groups
        self.unknown_tags = unknown_tags
