"""AddOffsetsToTxnResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class AddOffsetsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "unknown_tags")
    API_KEY = 25
    VALID_VERSIONS = (0, 4)
    FLEXIBLE_VERSIONS = (3, 4)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_tags = unknown_tags
