"""TransactionLogKey. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class TransactionLogKey(Message):
    __slots__ = ("transactional_id", "unknown_tags")
    API_KEY = 0
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    transactional_id: string 0
    """

    def __init__(
        self,
        *,
        transactional_id: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.unknown_tags = unknown_tags
