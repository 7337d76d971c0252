"""AssignReplicasToDirsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionData(Struct):
    __slots__ = ("partition_index", "error_code", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.unknown_tags = unknown_tags


class TopicData(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    partitions: []PartitionData 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | tuple[PartitionData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class DirectoryData(Struct):
    __slots__ = ("id", "topics", "unknown_tags")
    SCHEMA = """
    id: uuid 0+
    topics: []TopicData 0+
    """

    def __init__(
        self,
        *,
        id: bytes = ZERO_UUID,
        topics: list[TopicData] | tuple[TopicData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.id = id
        self.topics: list[TopicData] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags


class AssignReplicasToDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "directories", "unknown_tags")
    API_KEY = 73
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    directories: []DirectoryData 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[DirectoryData] | tuple[DirectoryData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories: list[DirectoryData] = list(directories) if isinstance(directories, tuple) else directories
        self.unknown_tags = unknown_tags
