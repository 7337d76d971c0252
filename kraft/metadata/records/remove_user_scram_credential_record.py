"""RemoveUserScramCredentialRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class RemoveUserScramCredentialRecord(Message):
    __slots__ = ("name", "mechanism", "unknown_tags")
    API_KEY = 22
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    name: string 0+
    mechanism: int8 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.unknown_tags = unknown_tags
