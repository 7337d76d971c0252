"""TxnOffsetCommitResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class TxnOffsetCommitResponsePartition(Struct):
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


class TxnOffsetCommitResponseTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0-5 entity=topicName ignorable
    topic_id: uuid 6+ ignorable
    partitions: []TxnOffsetCommitResponsePartition 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[TxnOffsetCommitResponsePartition] | tuple[TxnOffsetCommitResponsePartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[TxnOffsetCommitResponsePartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class TxnOffsetCommitResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 28
    VALID_VERSIONS = (0, 6)
    FLEXIBLE_VERSIONS = (3, 6)
    SCHEMA = """
    throttle_time_ms: int32 0+
    topics: []TxnOffsetCommitResponseTopic 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponseTopic] | tuple[TxnOffsetCommitResponseTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[TxnOffsetCommitResponseTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
