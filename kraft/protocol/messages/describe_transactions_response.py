"""DescribeTransactionsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicData(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")
    SCHEMA = """
    topic: string 0+ entity=topicName key
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class TransactionState(Struct):
    __slots__ = ("error_code", "transactional_id", "transaction_state", "transaction_timeout_ms", "transaction_start_time_ms", "producer_id", "producer_epoch", "topics", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    transactional_id: string 0+ entity=transactionalId
    transaction_state: string 0+
    transaction_timeout_ms: int32 0+
    transaction_start_time_ms: int64 0+
    producer_id: int64 0+ entity=producerId
    producer_epoch: int16 0+
    topics: []TopicData 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] | tuple[TopicData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics: list[TopicData] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags


class DescribeTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "transaction_states", "unknown_tags")
    API_KEY = 65
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    throttle_time_ms: int32 0+
    transaction_states: []TransactionState 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: list[TransactionState] | tuple[TransactionState, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states: list[TransactionState] = list(transaction_states) if isinstance(transaction_states, tuple) else transaction_states
        self.unknown_tags = unknown_tags
