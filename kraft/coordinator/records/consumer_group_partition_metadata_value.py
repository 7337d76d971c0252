"""ConsumerGroupPartitionMetadataValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionMetadata(Struct):
    __slots__ = ("partition", "racks", "unknown_tags")
    SCHEMA = """
    partition: int32 0+
    racks: []string 0+
    """

    def __init__(
        self,
        *,
        partition: int = 0,
        racks: list[str] | tuple[str, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition = partition
        self.racks: list[str] = list(racks) if isinstance(racks, tuple) else racks
        self.unknown_tags = unknown_tags


class TopicMetadata(Struct):
    __slots__ = ("topic_id", "topic_name", "num_partitions", "partition_metadata", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    topic_name: string 0+
    num_partitions: int32 0+
    partition_metadata: []PartitionMetadata 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: list[PartitionMetadata] | tuple[PartitionMetadata, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata: list[PartitionMetadata] = list(partition_metadata) if isinstance(partition_metadata, tuple) else partition_metadata
        self.unknown_tags = unknown_tags


class ConsumerGroupPartitionMetadataValue(Message):
    __slots__ = ("topics", "unknown_tags")
    API_KEY = 4
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    topics: []TopicMetadata 0+
    """

    def __init__(
        self,
        *,
        topics: list[TopicMetadata] | tuple[TopicMetadata, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[TopicMetadata] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
