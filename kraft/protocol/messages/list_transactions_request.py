"""ListTransactionsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ListTransactionsRequest(Message):
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern", "unknown_tags")
    API_KEY = 66
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (0, 2)
    SCHEMA = """
    state_filters: []string 0+
    producer_id_filters: []int64 0+ entity=producerId
    duration_filter: int64 1+ default=-1
    transactional_id_pattern: string 2+ nullable=2+ default=null
    """

    def __init__(
        self,
        *,
        state_filters: list[str] | tuple[str, ...] = (),
        producer_id_filters: list[int] | tuple[int, ...] = (),
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.state_filters: list[str] = list(state_filters) if isinstance(state_filters, tuple) else state_filters
        self.producer_id_filters: list[int] = list(producer_id_filters) if isinstance(producer_id_filters, tuple) else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern
        self.unknown_tags = unknown_tags
