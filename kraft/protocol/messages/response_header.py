"""ResponseHeader. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ResponseHeader(Message):
    __slots__ = ("correlation_id", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    correlation_id: int32 0+
    """

    def __init__(
        self,
        *,
        correlation_id: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.correlation_id = correlation_id
        self.unknown_tags = unknown_tags
