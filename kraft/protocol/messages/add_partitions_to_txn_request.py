"""AddPartitionsToTxnRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AddPartitionsToTxnTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class AddPartitionsToTxnTransaction(Struct):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics", "unknown_tags")
    SCHEMA = """
    transactional_id: string 4+ entity=transactionalId key
    producer_id: int64 4+ entity=producerId
    producer_epoch: int16 4+
    verify_only: bool 4+ default=false
    topics: []AddPartitionsToTxnTopic 4+
    """

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] | tuple[AddPartitionsToTxnTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics: list[AddPartitionsToTxnTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags


class AddPartitionsToTxnRequest(Message):
    __slots__ = ("transactions", "v3_and_below_transactional_id", "v3_and_below_producer_id", "v3_and_below_producer_epoch", "v3_and_below_topics", "unknown_tags")
    API_KEY = 24
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (3, 5)
    SCHEMA = """
    transactions: []AddPartitionsToTxnTransaction 4+
    v3_and_below_transactional_id: string 0-3 entity=transactionalId
    v3_and_below_producer_id: int64 0-3 entity=producerId
    v3_and_below_producer_epoch: int16 0-3
    v3_and_below_topics: []AddPartitionsToTxnTopic 0-3
    """

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnTransaction] | tuple[AddPartitionsToTxnTransaction, ...] = (),
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] | tuple[AddPartitionsToTxnTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactions: list[AddPartitionsToTxnTransaction] = list(transactions) if isinstance(transactions, tuple) else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics: list[AddPartitionsToTxnTopic] = list(v3_and_below_topics) if isinstance(v3_and_below_topics, tuple) else v3_and_below_topics
        self.unknown_tags = unknown_tags
