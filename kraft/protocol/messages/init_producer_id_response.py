"""InitProducerIdResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class InitProducerIdResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch", "ongoing_txn_producer_id", "ongoing_txn_producer_epoch", "unknown_tags")
    API_KEY = 22
    VALID_VERSIONS = (0, 6)
    FLEXIBLE_VERSIONS = (2, 6)
    SCHEMA = """
    throttle_time_ms: int32 0+ ignorable
    error_code: int16 0+
    producer_id: int64 0+ default=-1 entity=producerId
    producer_epoch: int16 0+
    ongoing_txn_producer_id: int64 6+ default=-1 entity=producerId
    ongoing_txn_producer_epoch: int16 6+ default=-1
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
        self.unknown_tags = unknown_tags
