"""EndTransactionRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class EndTransactionRecord(Message):
    __slots__ = ("unknown_tags",)
    API_KEY = 24
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = ""

    def __init__(self, *, unknown_tags: UnknownTags | None = None) -> None:
        self.unknown_tags = unknown_tags
