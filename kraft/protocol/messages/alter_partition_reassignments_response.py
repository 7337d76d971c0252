"""AlterPartitionReassignmentsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ReassignablePartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class ReassignableTopicResponse(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []ReassignablePartitionResponse 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ReassignablePartitionResponse] | tuple[ReassignablePartitionResponse, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[ReassignablePartitionResponse] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class AlterPartitionReassignmentsResponse(Message):
    __slots__ = ("throttle_time_ms", "allow_replication_factor_change", "error_code", "error_message", "responses", "unknown_tags")
    API_KEY = 45
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    throttle_time_ms: int32 0+
    allow_replication_factor_change: bool 1+ default=true ignorable
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    responses: []ReassignableTopicResponse 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[ReassignableTopicResponse] | tuple[ReassignableTopicResponse, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses: list[ReassignableTopicResponse] = list(responses) if isinstance(responses, tuple) else responses
        self.unknown_tags = unknown_tags
