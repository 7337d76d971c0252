"""ShareGroupStatePartitionMetadataValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicPartitionsInfo(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    topic_name: string 0+
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class TopicInfo(Struct):
    __slots__ = ("topic_id", "topic_name", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    topic_name: string 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.unknown_tags = unknown_tags


class ShareGroupStatePartitionMetadataValue(Message):
    __slots__ = ("initializing_topics", "initialized_topics", "deleting_topics", "unknown_tags")
    API_KEY = 15
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    initializing_topics: []TopicPartitionsInfo 0+
    initialized_topics: []TopicPartitionsInfo 0+
    deleting_topics: []TopicInfo 0+
    """

    def __init__(
        self,
        *,
        initializing_topics: list[TopicPartitionsInfo] | tuple[TopicPartitionsInfo, ...] = (),
        initialized_topics: list[TopicPartitionsInfo] | tuple[TopicPartitionsInfo, ...] = (),
        deleting_topics: list[TopicInfo] | tuple[TopicInfo, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.initializing_topics: list[TopicPartitionsInfo] = list(initializing_topics) if isinstance(initializing_topics, tuple) else initializing_topics
        self.initialized_topics: list[TopicPartitionsInfo] = list(initialized_topics) if isinstance(initialized_topics, tuple) else initialized_topics
        self.deleting_topics: list[TopicInfo] = list(deleting_topics) if isinstance(deleting_topics, tuple) else deleting_topics
        self.unknown_tags = unknown_tags
