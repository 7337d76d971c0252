"""DefaultPrincipalData. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class DefaultPrincipalData(Message):
    __slots__ = ("type", "name", "token_authenticated", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    type: string 0+
    name: string 0+
    token_authenticated: bool 0+
    """

    def __init__(
        self,
        *,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
        self.unknown_tags = unknown_tags
