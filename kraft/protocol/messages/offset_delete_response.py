"""OffsetDeleteResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class OffsetDeleteResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+ key
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


class OffsetDeleteResponseTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
    partitions: []OffsetDeleteResponsePartition 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteResponsePartition] | tuple[OffsetDeleteResponsePartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[OffsetDeleteResponsePartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class OffsetDeleteResponse(Message):
    __slots__ = ("error_code", "throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 47
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    error_code: int16 0+
    throttle_time_ms: int32 0+ ignorable
    topics: []OffsetDeleteResponseTopic 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] | tuple[OffsetDeleteResponseTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetDeleteResponseTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
