"""CreateTopicsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class CreatableReplicaAssignment(Struct):
    __slots__ = ("partition_index", "broker_ids", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+ key
    broker_ids: []int32 0+ entity=brokerId
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids: list[int] = list(broker_ids) if isinstance(broker_ids, tuple) else broker_ids
        self.unknown_tags = unknown_tags


class CreatableTopicConfig(Struct):
    __slots__ = ("name", "value", "unknown_tags")
    SCHEMA = """
    name: string 0+ key
    value: string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.unknown_tags = unknown_tags


class CreatableTopic(Struct):
    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
    num_partitions: int32 0+
    replication_factor: int16 0+
    assignments: []CreatableReplicaAssignment 0+
    configs: []CreatableTopicConfig 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] | tuple[CreatableReplicaAssignment, ...] = (),
        configs: list[CreatableTopicConfig] | tuple[CreatableTopicConfig, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments: list[CreatableReplicaAssignment] = list(assignments) if isinstance(assignments, tuple) else assignments
        self.configs: list[CreatableTopicConfig] = list(configs) if isinstance(configs, tuple) else configs
        self.unknown_tags = unknown_tags


class CreateTopicsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only", "unknown_tags")
    API_KEY = 19
    VALID_VERSIONS = (2, 7)
    FLEXIBLE_VERSIONS = (5, 7)
    SCHEMA = """
    topics: []CreatableTopic 0+
    timeout_ms: int32 0+ default=60000
    validate_only: bool 1+ default=false
    """

    def __init__(
        self,
        *,
        topics: list[CreatableTopic] | tuple[CreatableTopic, ...] = (),
        timeout_ms: int = 60000,
        validate_only: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[CreatableTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags
