"""DescribeTopicPartitionsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribeTopicPartitionsResponsePartition(Struct):
    __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "eligible_leader_replicas", "last_known_elr", "offline_replicas", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    partition_index: int32 0+
    leader_id: int32 0+ entity=brokerId
    leader_epoch: int32 0+ default=-1 ignorable
    replica_nodes: []int32 0+ entity=brokerId
    isr_nodes: []int32 0+ entity=brokerId
    eligible_leader_replicas: []int32 0+ nullable=0+ default=null entity=brokerId
    last_known_elr: []int32 0+ nullable=0+ default=null entity=brokerId
    offline_replicas: []int32 0+ entity=brokerId ignorable
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] | tuple[int, ...] = (),
        isr_nodes: list[int] | tuple[int, ...] = (),
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes: list[int] = list(replica_nodes) if isinstance(replica_nodes, tuple) else replica_nodes
        self.isr_nodes: list[int] = list(isr_nodes) if isinstance(isr_nodes, tuple) else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas: list[int] = list(offline_replicas) if isinstance(offline_replicas, tuple) else offline_replicas
        self.unknown_tags = unknown_tags


class DescribeTopicPartitionsResponseTopic(Struct):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    name: string 0+ nullable=0+ entity=topicName key
    topic_id: uuid 0+ ignorable
    is_internal: bool 0+ default=false ignorable
    partitions: []DescribeTopicPartitionsResponsePartition 0+
    topic_authorized_operations: int32 0+ default=-2147483648
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] | tuple[DescribeTopicPartitionsResponsePartition, ...] = (),
        topic_authorized_operations: int = -2147483648,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions: list[DescribeTopicPartitionsResponsePartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.topic_authorized_operations = topic_authorized_operations
        self.unknown_tags = unknown_tags


class Cursor(Struct):
    __slots__ = ("topic_name", "partition_index", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName
    partition_index: int32 0+
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
        self.unknown_tags = unknown_tags


class DescribeTopicPartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "next_cursor", "unknown_tags")
    API_KEY = 75
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    throttle_time_ms: int32 0+ ignorable
    topics: []DescribeTopicPartitionsResponseTopic 0+
    next_cursor: Cursor 0+ nullable=0+ default=null
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] | tuple[DescribeTopicPartitionsResponseTopic, ...] = (),
        next_cursor: Cursor | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[DescribeTopicPartitionsResponseTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.next_cursor = next_cursor
        self.unknown_tags = unknown_tags
