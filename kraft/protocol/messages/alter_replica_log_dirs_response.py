"""AlterReplicaLogDirsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AlterReplicaLogDirPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.unknown_tags = unknown_tags


class AlterReplicaLogDirTopicResult(Struct):
    __slots__ = ("topic_name", "partitions", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName
    partitions: []AlterReplicaLogDirPartitionResult 0+
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterReplicaLogDirPartitionResult] | tuple[AlterReplicaLogDirPartitionResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[AlterReplicaLogDirPartitionResult] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class AlterReplicaLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "results", "unknown_tags")
    API_KEY = 34
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    throttle_time_ms: int32 0+
    results: []AlterReplicaLogDirTopicResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirTopicResult] | tuple[AlterReplicaLogDirTopicResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[AlterReplicaLogDirTopicResult] = list(results) if isinstance(results, tuple) else results
        self.unknown_tags = unknown_tags
