"""AlterShareGroupOffsetsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class AlterShareGroupOffsetsResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class AlterShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName key
    topic_id: uuid 0+
    partitions: []AlterShareGroupOffsetsResponsePartition 0+
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[AlterShareGroupOffsetsResponsePartition] | tuple[AlterShareGroupOffsetsResponsePartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions: list[AlterShareGroupOffsetsResponsePartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class AlterShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses", "unknown_tags")
    API_KEY = 91
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    responses: []AlterShareGroupOffsetsResponseTopic 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] | tuple[AlterShareGroupOffsetsResponseTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses: list[AlterShareGroupOffsetsResponseTopic] = list(responses) if isinstance(responses, tuple) else responses
        self.unknown_tags = unknown_tags
