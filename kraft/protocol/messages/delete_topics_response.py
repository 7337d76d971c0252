"""DeleteTopicsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class DeletableTopicResult(Struct):
    __slots__ = ("name", "topic_id", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    name: string 0+ nullable=6+ entity=topicName key
    topic_id: uuid 6+ ignorable
    error_code: int16 0+
    error_message: string 5+ nullable=5+ default=null ignorable
    """

    def __init__(
        self,
        *,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class DeleteTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses", "unknown_tags")
    API_KEY = 20
    VALID_VERSIONS = (1, 6)
    FLEXIBLE_VERSIONS = (4, 6)
    SCHEMA = """
    throttle_time_ms: int32 1+ ignorable
    responses: []DeletableTopicResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeletableTopicResult] | tuple[DeletableTopicResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses: list[DeletableTopicResult] = list(responses) if isinstance(responses, tuple) else responses
        self.unknown_tags = unknown_tags
