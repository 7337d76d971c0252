"""GroupMetadataKey. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class GroupMetadataKey(Message):
    __slots__ = ("group", "unknown_tags")
    API_KEY = 2
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    group: string 0
    """

    def __init__(
        self,
        *,
        group: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group = group
        self.unknown_tags = unknown_tags
