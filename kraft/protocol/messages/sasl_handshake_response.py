"""SaslHandshakeResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class SaslHandshakeResponse(Message):
    __slots__ = ("error_code", "mechanisms", "unknown_tags")
    API_KEY = 17
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    error_code: int16 0+
    mechanisms: []string 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] | tuple[str, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.mechanisms: list[str] = list(mechanisms) if isinstance(mechanisms, tuple) else mechanisms
        self.unknown_tags = unknown_tags
