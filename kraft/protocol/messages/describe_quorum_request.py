"""DescribeQuorumRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionData(Struct):
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


class DescribeQuorumRequest(Message):
    __slots__ = ("topics", "unknown_tags")
    API_KEY = 55
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (0, 2)
    SCHEMA = """
    topics: []TopicData 0+
    """

    def __init__(
        self,
        *,
        topics: list[TopicData] | tuple[TopicData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[TopicData] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
