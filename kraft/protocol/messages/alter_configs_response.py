"""AlterConfigsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AlterConfigsResourceResponse(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    resource_type: int8 0+
    resource_name: string 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.unknown_tags = unknown_tags


class AlterConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses", "unknown_tags")
    API_KEY = 33
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    throttle_time_ms: int32 0+
    responses: []AlterConfigsResourceResponse 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[AlterConfigsResourceResponse] | tuple[AlterConfigsResourceResponse, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses: list[AlterConfigsResourceResponse] = list(responses) if isinstance(responses, tuple) else responses
        self.unknown_tags = unknown_tags
