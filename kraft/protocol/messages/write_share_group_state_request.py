"""WriteShareGroupStateRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

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


class PartitionData(Struct):
    __slots__ = ("partition", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches", "unknown_tags")
    SCHEMA = """
    partition: int32 0+
    state_epoch: int32 0+
    leader_epoch: int32 0+
    start_offset: int64 0+
    delivery_complete_count: int32 1+ default=-1 ignorable
    state_batches: []StateBatch 0+
    """

    def __init__(
        self,
        *,
        partition: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        state_batches: list[StateBatch] | tuple[StateBatch, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.state_batches: list[StateBatch] = list(state_batches) if isinstance(state_batches, tuple) else state_batches
        self.unknown_tags = unknown_tags


class WriteStateData(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    partitions: []PartitionData 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | tuple[PartitionData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class WriteShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics", "unknown_tags")
    API_KEY = 85
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    group_id: string 0+
    topics: []WriteStateData 0+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[WriteStateData] | tuple[WriteStateData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[WriteStateData] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
