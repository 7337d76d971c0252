"""DeleteRecordsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DeleteRecordsPartitionResult(Struct):
    __slots__ = ("partition_index", "low_watermark", "error_code", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+ key
    low_watermark: int64 0+
    error_code: int16 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code
        self.unknown_tags = unknown_tags


class DeleteRecordsTopicResult(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
    partitions: []DeleteRecordsPartitionResult 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartitionResult] | tuple[DeleteRecordsPartitionResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[DeleteRecordsPartitionResult] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class DeleteRecordsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 21
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    throttle_time_ms: int32 0+
    topics: []DeleteRecordsTopicResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsTopicResult] | tuple[DeleteRecordsTopicResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[DeleteRecordsTopicResult] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
