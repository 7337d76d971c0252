"""DescribeShareGroupOffsetsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribeShareGroupOffsetsResponsePartition(Struct):
    __slots__ = ("partition_index", "start_offset", "leader_epoch", "lag", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    start_offset: int64 0+
    leader_epoch: int32 0+
    lag: int64 1+ default=-1 ignorable
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class DescribeShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName
    topic_id: uuid 0+
    partitions: []DescribeShareGroupOffsetsResponsePartition 0+
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[DescribeShareGroupOffsetsResponsePartition] | tuple[DescribeShareGroupOffsetsResponsePartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions: list[DescribeShareGroupOffsetsResponsePartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class DescribeShareGroupOffsetsResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    group_id: string 0+ entity=groupId
    topics: []DescribeShareGroupOffsetsResponseTopic 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsResponseTopic] | tuple[DescribeShareGroupOffsetsResponseTopic, ...] = (),
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DescribeShareGroupOffsetsResponseTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class DescribeShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups", "unknown_tags")
    API_KEY = 90
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    throttle_time_ms: int32 0+
    groups: []DescribeShareGroupOffsetsResponseGroup 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribeShareGroupOffsetsResponseGroup] | tuple[DescribeShareGroupOffsetsResponseGroup, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribeShareGroupOffsetsResponseGroup] = list(groups) if isinstance(groups, tuple) else groups
        self.unknown_tags = unknown_tags
