"""ListOffsetsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ListOffsetsPartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    timestamp: int64 1+ default=-1
    offset: int64 1+ default=-1
    leader_epoch: int32 4+ default=-1
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags


class ListOffsetsTopicResponse(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []ListOffsetsPartitionResponse 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartitionResponse] | tuple[ListOffsetsPartitionResponse, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[ListOffsetsPartitionResponse] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class ListOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 2
    VALID_VERSIONS = (1, 11)
    FLEXIBLE_VERSIONS = (6, 11)
    SCHEMA = """
    throttle_time_ms: int32 2+ ignorable
    topics: []ListOffsetsTopicResponse 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsTopicResponse] | tuple[ListOffsetsTopicResponse, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[ListOffsetsTopicResponse] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
