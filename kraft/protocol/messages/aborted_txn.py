"""AbortedTxn. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class AbortedTxn(Message):
    __slots__ = ("producer_id", "first_offset", "last_offset", "last_stable_offset", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    producer_id: int64 0+
    first_offset: int64 0+
    last_offset: int64 0+
    last_stable_offset: int64 0+
    """

    def __init__(
        self,
        *,
        producer_id: int = 0,
        first_offset: int = 0,
        last_offset: int = 0,
        last_stable_offset: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.last_stable_offset = last_stable_offset
        self.unknown_tags = unknown_tags
