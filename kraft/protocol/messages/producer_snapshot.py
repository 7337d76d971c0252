"""ProducerSnapshot. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ProducerEntry(Struct):
    __slots__ = ("producer_id", "epoch", "last_sequence", "last_offset", "offset_delta", "timestamp", "coordinator_epoch", "current_txn_first_offset", "unknown_tags")
    SCHEMA = """
    producer_id: int64 1
    epoch: int16 1
    last_sequence: int32 1
    last_offset: int64 1
    offset_delta: int32 1
    timestamp: int64 1
    coordinator_epoch: int32 1
    current_txn_first_offset: int64 1
    """

    def __init__(
        self,
        *,
        producer_id: int = 0,
        epoch: int = 0,
        last_sequence: int = 0,
        last_offset: int = 0,
        offset_delta: int = 0,
        timestamp: int = 0,
        coordinator_epoch: int = 0,
        current_txn_first_offset: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_sequence = last_sequence
        self.last_offset = last_offset
        self.offset_delta = offset_delta
        self.timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = current_txn_first_offset
        self.unknown_tags = unknown_tags


class ProducerSnapshot(Message):
    __slots__ = ("crc", "producer_entries", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (1, 1)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    crc: uint32 1
    producer_entries: []ProducerEntry 1
    """

    def __init__(
        self,
        *,
        crc: int = 0,
        producer_entries: list[ProducerEntry] | tuple[ProducerEntry, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.crc = crc
        self.producer_entries: list[ProducerEntry] = list(producer_entries) if isinstance(producer_entries, tuple) else producer_entries
        self.unknown_tags = unknown_tags
