"""DeleteRecordsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DeleteRecordsPartition(Struct):
    __slots__ = ("partition_index", "offset", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    offset: int64 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset
        self.unknown_tags = unknown_tags


class DeleteRecordsTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []DeleteRecordsPartition 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartition] | tuple[DeleteRecordsPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[DeleteRecordsPartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class DeleteRecordsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "unknown_tags")
    API_KEY = 21
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    topics: []DeleteRecordsTopic 0+
    timeout_ms: int32 0+
    """

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsTopic] | tuple[DeleteRecordsTopic, ...] = (),
        timeout_ms: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[DeleteRecordsTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags
