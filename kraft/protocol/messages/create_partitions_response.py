"""CreatePartitionsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class CreatePartitionsTopicResult(Struct):
    __slots__ = ("name", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    """

    def __init__(
        self,
        *,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class CreatePartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "results", "unknown_tags")
    API_KEY = 37
    VALID_VERSIONS = (0, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    throttle_time_ms: int32 0+
    results: []CreatePartitionsTopicResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsTopicResult] | tuple[CreatePartitionsTopicResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[CreatePartitionsTopicResult] = list(results) if isinstance(results, tuple) else results
        self.unknown_tags = unknown_tags
