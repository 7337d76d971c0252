"""ReadShareGroupStateSummaryRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionData(Struct):
    __slots__ = ("partition", "leader_epoch", "unknown_tags")
    SCHEMA = """
    partition: int32 0+
    leader_epoch: int32 0+
    """

    def __init__(
        self,
        *,
        partition: int = 0,
        leader_epoch: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags


class ReadStateSummaryData(Struct):
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


class ReadShareGroupStateSummaryRequest(Message):
    __slots__ = ("group_id", "topics", "unknown_tags")
    API_KEY = 87
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    group_id: string 0+
    topics: []ReadStateSummaryData 0+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[ReadStateSummaryData] | tuple[ReadStateSummaryData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[ReadStateSummaryData] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
