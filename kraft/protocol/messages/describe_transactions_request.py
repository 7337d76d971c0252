"""DescribeTransactionsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class DescribeTransactionsRequest(Message):
    __slots__ = ("transactional_ids", "unknown_tags")
    API_KEY = 65
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    transactional_ids: []string 0+ entity=transactionalId
    """

    def __init__(
        self,
        *,
        transactional_ids: list[str] | tuple[str, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_ids: list[str] = list(transactional_ids) if isinstance(transactional_ids, tuple) else transactional_ids
        self.unknown_tags = unknown_tags
