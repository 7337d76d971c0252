"""EndTxnRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class EndTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed", "unknown_tags")
    API_KEY = 26
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (3, 5)
    SCHEMA = """
    transactional_id: string 0+ entity=transactionalId
    producer_id: int64 0+ entity=producerId
    producer_epoch: int16 0+
    committed: bool 0+
    """

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed
        self.unknown_tags = unknown_tags
