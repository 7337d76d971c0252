"""InitProducerIdRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class InitProducerIdRequest(Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable2_pc", "keep_prepared_txn", "unknown_tags")
    API_KEY = 22
    VALID_VERSIONS = (0, 6)
    FLEXIBLE_VERSIONS = (2, 6)
    SCHEMA = """
    transactional_id: string 0+ nullable=0+ entity=transactionalId
    transaction_timeout_ms: int32 0+
    producer_id: int64 3+ default=-1 entity=producerId
    producer_epoch: int16 3+ default=-1
    enable2_pc: bool 6+ default=false
    keep_prepared_txn: bool 6+ default=false
    """

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn
        self.unknown_tags = unknown_tags
