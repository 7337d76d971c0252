"""SaslAuthenticateRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class SaslAuthenticateRequest(Message):
    __slots__ = ("auth_bytes", "unknown_tags")
    API_KEY = 36
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    auth_bytes: bytes 0+
    """

    def __init__(
        self,
        *,
        auth_bytes: bytes = b"",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.auth_bytes = auth_bytes
        self.unknown_tags = unknown_tags
