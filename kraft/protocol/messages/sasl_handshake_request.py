"""SaslHandshakeRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class SaslHandshakeRequest(Message):
    __slots__ = ("mechanism", "unknown_tags")
    API_KEY = 17
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    mechanism: string 0+
    """

    def __init__(
        self,
        *,
        mechanism: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.unknown_tags = unknown_tags
