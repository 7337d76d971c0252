"""ReadShareGroupStateResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class StateBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count", "unknown_tags")
    SCHEMA = """
    first_offset: int64 0+
    last_offset: int64 0+
    delivery_state: int8 0+
    delivery_count: int16 0+
    """

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count
        self.unknown_tags = unknown_tags


class PartitionResult(Struct):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "start_offset", "state_batches", "unknown_tags")
    SCHEMA = """
    partition: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    state_epoch: int32 0+
    start_offset: int64 0+
    state_batches: []StateBatch 0+
    """

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[StateBatch] | tuple[StateBatch, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches: list[StateBatch] = list(state_batches) if isinstance(state_batches, tuple) else state_batches
        self.unknown_tags = unknown_tags


class ReadStateResult(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    partitions: []PartitionResult 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionResult] | tuple[PartitionResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class ReadShareGroupStateResponse(Message):
    __slots__ = ("results", "unknown_tags")
    API_KEY = 84
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    results: []ReadStateResult 0+
    """

    def __init__(
        self,
        *,
        results: list[ReadStateResult] | tuple[ReadStateResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.results: list[ReadStateResult] = list(results) if isinstance(results, tuple) else results
        self.unknown_tags = unknown_tags
