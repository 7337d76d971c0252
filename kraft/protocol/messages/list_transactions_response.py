"""ListTransactionsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class TransactionState(Struct):
    __slots__ = ("transactional_id", "producer_id", "transaction_state", "unknown_tags")
    SCHEMA = """
    transactional_id: string 0+ entity=transactionalId
    producer_id: int64 0+ entity=producerId
    transaction_state: string 0+
    """

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state
        self.unknown_tags = unknown_tags


class ListTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states", "unknown_tags")
    API_KEY = 66
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (0, 2)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    unknown_state_filters: []string 0+
    transaction_states: []TransactionState 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] | tuple[str, ...] = (),
        transaction_states: list[TransactionState] | tuple[TransactionState, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters: list[str] = list(unknown_state_filters) if isinstance(unknown_state_filters, tuple) else unknown_state_filters
        self.transaction_states: list[TransactionState] = list(transaction_states) if isinstance(transaction_states, tuple) else transaction_states
        self.unknown_tags = unknown_tags
