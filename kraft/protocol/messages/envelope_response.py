"""EnvelopeResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Bytes, Message, UnknownTags


class EnvelopeResponse(Message):
    __slots__ = ("response_data", "error_code", "unknown_tags")
    API_KEY = 58
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    response_data: bytes 0+ nullable=0+ default=null zero_copy
    error_code: int16 0+
    """

    def __init__(
        self,
        *,
        response_data: Bytes | None = None,
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code
        self.unknown_tags = unknown_tags
