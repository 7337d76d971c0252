"""SaslAuthenticateResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class SaslAuthenticateResponse(Message):
    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms", "unknown_tags")
    API_KEY = 36
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    auth_bytes: bytes 0+
    session_lifetime_ms: int64 1+ default=0 ignorable
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
        self.unknown_tags = unknown_tags
