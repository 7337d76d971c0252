"""RemoveAccessControlEntryRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, UnknownTags


class RemoveAccessControlEntryRecord(Message):
    __slots__ = ("id", "unknown_tags")
    API_KEY = 19
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    id: uuid 0+
    """

    def __init__(
        self,
        *,
        id: bytes = ZERO_UUID,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.id = id
        self.unknown_tags = unknown_tags
