"""AbortTransactionRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class AbortTransactionRecord(Message):
    __slots__ = ("reason", "unknown_tags")
    API_KEY = 25
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    reason: string 0+ nullable=0+ tag=0@0+ default=null
    """

    def __init__(
        self,
        *,
        reason: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.reason = reason
        self.unknown_tags = unknown_tags
