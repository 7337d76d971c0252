"""ListPartitionReassignmentsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class OngoingPartitionReassignment(Struct):
    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    replicas: []int32 0+ entity=brokerId
    adding_replicas: []int32 0+ entity=brokerId
    removing_replicas: []int32 0+ entity=brokerId
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | tuple[int, ...] = (),
        adding_replicas: list[int] | tuple[int, ...] = (),
        removing_replicas: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas: list[int] = list(replicas) if isinstance(replicas, tuple) else replicas
        self.adding_replicas: list[int] = list(adding_replicas) if isinstance(adding_replicas, tuple) else adding_replicas
        self.removing_replicas: list[int] = list(removing_replicas) if isinstance(removing_replicas, tuple) else removing_replicas
        self.unknown_tags = unknown_tags


class OngoingTopicReassignment(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []OngoingPartitionReassignment 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OngoingPartitionReassignment] | tuple[OngoingPartitionReassignment, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[OngoingPartitionReassignment] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class ListPartitionReassignmentsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics", "unknown_tags")
    API_KEY = 46
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    topics: []OngoingTopicReassignment 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] | tuple[OngoingTopicReassignment, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics: list[OngoingTopicReassignment] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
