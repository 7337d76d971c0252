"""ReadShareGroupStateSummaryResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionResult(Struct):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "unknown_tags")
    SCHEMA = """
    partition: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    state_epoch: int32 0+
    leader_epoch: int32 0+
    start_offset: int64 0+
    delivery_complete_count: int32 1+ default=-1 ignorable
    """

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.unknown_tags = unknown_tags


class ReadStateSummaryResult(Struct):
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


class ReadShareGroupStateSummaryResponse(Message):
    __slots__ = ("results", "unknown_tags")
    API_KEY = 87
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    results: []ReadStateSummaryResult 0+
    """

    def __init__(
        self,
        *,
        results: list[ReadStateSummaryResult] | tuple[ReadStateSummaryResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.results: list[ReadStateSummaryResult] = list(results) if isinstance(results, tuple) else results
        self.unknown_tags = unknown_tags
