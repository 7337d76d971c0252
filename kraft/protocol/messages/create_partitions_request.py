"""CreatePartitionsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class CreatePartitionsAssignment(Struct):
    __slots__ = ("broker_ids", "unknown_tags")
    SCHEMA = """
    broker_ids: []int32 0+ entity=brokerId
    """

    def __init__(
        self,
        *,
        broker_ids: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.broker_ids: list[int] = list(broker_ids) if isinstance(broker_ids, tuple) else broker_ids
        self.unknown_tags = unknown_tags


class CreatePartitionsTopic(Struct):
    __slots__ = ("name", "count", "assignments", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
    count: int32 0+
    assignments: []CreatePartitionsAssignment 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | tuple[CreatePartitionsAssignment, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments: list[CreatePartitionsAssignment] | None = list(assignments) if isinstance(assignments, tuple) else assignments
        self.unknown_tags = unknown_tags


class CreatePartitionsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only", "unknown_tags")
    API_KEY = 37
    VALID_VERSIONS = (0, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    topics: []CreatePartitionsTopic 0+
    timeout_ms: int32 0+
    validate_only: bool 0+
    """

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsTopic] | tuple[CreatePartitionsTopic, ...] = (),
        timeout_ms: int = 0,
        validate_only: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[CreatePartitionsTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags
