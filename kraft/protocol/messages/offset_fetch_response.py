"""OffsetFetchResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class OffsetFetchResponsePartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0-7
    committed_offset: int64 0-7
    committed_leader_epoch: int32 5-7 default=-1 ignorable
    metadata: string 0-7 nullable=0-7
    error_code: int16 0-7
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code
        self.unknown_tags = unknown_tags


class OffsetFetchResponseTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0-7 entity=topicName
    partitions: []OffsetFetchResponsePartition 0-7
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] | tuple[OffsetFetchResponsePartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[OffsetFetchResponsePartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class OffsetFetchResponsePartitions(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code", "unknown_tags")
    SCHEMA = """
    partition_index: int32 8+
    committed_offset: int64 8+
    committed_leader_epoch: int32 8+ default=-1 ignorable
    metadata: string 8+ nullable=8+
    error_code: int16 8+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code
        self.unknown_tags = unknown_tags


class OffsetFetchResponseTopics(Struct):
    __slots__ = ("name", "topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 8-9 entity=topicName ignorable
    topic_id: uuid 10+ ignorable
    partitions: []OffsetFetchResponsePartitions 8+
    """

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetFetchResponsePartitions] | tuple[OffsetFetchResponsePartitions, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[OffsetFetchResponsePartitions] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class OffsetFetchResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code", "unknown_tags")
    SCHEMA = """
    group_id: string 8+ entity=groupId
    topics: []OffsetFetchResponseTopics 8+
    error_code: int16 8+ default=0
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] | tuple[OffsetFetchResponseTopics, ...] = (),
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetFetchResponseTopics] = list(topics) if isinstance(topics, tuple) else topics
        self.error_code = error_code
        self.unknown_tags = unknown_tags


class OffsetFetchResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups", "unknown_tags")
    API_KEY = 9
    VALID_VERSIONS = (1, 10)
    FLEXIBLE_VERSIONS = (6, 10)
    SCHEMA = """
    throttle_time_ms: int32 3+ ignorable
    topics: []OffsetFetchResponseTopic 0-7
    error_code: int16 2-7 default=0 ignorable
    groups: []OffsetFetchResponseGroup 8+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] | tuple[OffsetFetchResponseTopic, ...] = (),
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] | tuple[OffsetFetchResponseGroup, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetFetchResponseTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.error_code = error_code
        self.groups: list[OffsetFetchResponseGroup] = list(groups) if isinstance(groups, tuple) else groups
        self.unknown_tags = unknown_tags
