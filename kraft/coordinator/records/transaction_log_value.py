"""TransactionLogValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionsSchema(Struct):
    __slots__ = ("topic", "partition_ids", "unknown_tags")
    SCHEMA = """
    topic: string 0+
    partition_ids: []int32 0+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        partition_ids: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.partition_ids: list[int] = list(partition_ids) if isinstance(partition_ids, tuple) else partition_ids
        self.unknown_tags = unknown_tags


class TransactionLogValue(Message):
    __slots__ = ("producer_id", "previous_producer_id", "next_producer_id", "producer_epoch", "next_producer_epoch", "transaction_timeout_ms", "transaction_status", "transaction_partitions", "transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms", "client_transaction_version", "unknown_tags")
    API_KEY = 0
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    producer_id: int64 0+
    previous_producer_id: int64 1+ tag=0@1+ default=-1
    next_producer_id: int64 1+ tag=1@1+ default=-1
    producer_epoch: int16 0+
    next_producer_epoch: int16 1+ tag=3@1+ default=-1
    transaction_timeout_ms: int32 0+
    transaction_status: int8 0+
    transaction_partitions: []PartitionsSchema 0+ nullable=0+
    transaction_last_update_timestamp_ms: int64 0+
    transaction_start_timestamp_ms: int64 0+
    client_transaction_version: int16 1+ tag=2@1+ default=0
    """

    def __init__(
        self,
        *,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        next_producer_epoch: int = -1,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: list[PartitionsSchema] | tuple[PartitionsSchema, ...] | None = (),
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.next_producer_epoch = next_producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions: list[PartitionsSchema] | None = list(transaction_partitions) if isinstance(transaction_partitions, tuple) else transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version
        self.unknown_tags = unknown_tags
