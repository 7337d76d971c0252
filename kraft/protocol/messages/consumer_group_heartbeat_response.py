"""ConsumerGroupHeartbeatResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class Assignment(Struct):
    __slots__ = ("topic_partitions", "unknown_tags")
    SCHEMA = """
    topic_partitions: []TopicPartitions 0+
    """

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] | tuple[TopicPartitions, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_partitions: list[TopicPartitions] = list(topic_partitions) if isinstance(topic_partitions, tuple) else topic_partitions
        self.unknown_tags = unknown_tags


class ConsumerGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "assignment", "unknown_tags")
    API_KEY = 68
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    member_id: string 0+ nullable=0+ default=null
    member_epoch: int32 0+
    heartbeat_interval_ms: int32 0+
    assignment: Assignment 0+ nullable=0+ default=null
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment
        self.unknown_tags = unknown_tags
