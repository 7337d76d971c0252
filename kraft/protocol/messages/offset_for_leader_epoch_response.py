"""OffsetForLeaderEpochResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class EpochEndOffset(Struct):
    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    partition: int32 0+
    leader_epoch: int32 1+ default=-1 ignorable
    end_offset: int64 0+ default=-1
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset
        self.unknown_tags = unknown_tags


class OffsetForLeaderTopicResult(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")
    SCHEMA = """
    topic: string 0+ entity=topicName key
    partitions: []EpochEndOffset 0+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[EpochEndOffset] | tuple[EpochEndOffset, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.partitions: list[EpochEndOffset] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class OffsetForLeaderEpochResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 23
    VALID_VERSIONS = (2, 4)
    FLEXIBLE_VERSIONS = (4, 4)
    SCHEMA = """
    throttle_time_ms: int32 2+ ignorable
    topics: []OffsetForLeaderTopicResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderTopicResult] | tuple[OffsetForLeaderTopicResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetForLeaderTopicResult] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
