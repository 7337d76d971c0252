"""BeginTransactionRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class BeginTransactionRecord(Message):
    __slots__ = ("name", "unknown_tags")
    API_KEY = 23
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    name: string 0+ nullable=0+ tag=0@0+ default=null
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.unknown_tags = unknown_tags
