"""AddOffsetsToTxnRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class AddOffsetsToTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id", "unknown_tags")
    API_KEY = 25
    VALID_VERSIONS = (0, 4)
    FLEXIBLE_VERSIONS = (3, 4)
    SCHEMA = """
    transactional_id: string 0+ entity=transactionalId
    producer_id: int64 0+ entity=producerId
    producer_epoch: int16 0+
    group_id: string 0+ entity=groupId
    """

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id
        self.unknown_tags = unknown_tags
