"""ControlRecordTypeSchema. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ControlRecordTypeSchema(Message):
    __slots__ = ("type", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    type: int16 0+
    """

    def __init__(
        self,
        *,
        type: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.type = type
        self.unknown_tags = unknown_tags
