"""RemoveDelegationTokenRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class RemoveDelegationTokenRecord(Message):
    __slots__ = ("token_id", "unknown_tags")
    API_KEY = 26
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    token_id: string 0+
    """

    def __init__(
        self,
        *,
        token_id: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.token_id = token_id
        self.unknown_tags = unknown_tags
