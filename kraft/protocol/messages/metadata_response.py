"""MetadataResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class MetadataResponseBroker(Struct):
    __slots__ = ("node_id", "host", "port", "rack", "unknown_tags")
    SCHEMA = """
    node_id: int32 0+ entity=brokerId key
    host: string 0+
    port: int32 0+
    rack: string 1+ nullable=1+ default=null ignorable
    """

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self.unknown_tags = unknown_tags


class MetadataResponsePartition(Struct):
    __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    partition_index: int32 0+
    leader_id: int32 0+ entity=brokerId
    leader_epoch: int32 7+ default=-1 ignorable
    replica_nodes: []int32 0+ entity=brokerId
    isr_nodes: []int32 0+ entity=brokerId
    offline_replicas: []int32 5+ entity=brokerId ignorable
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
        offline_replicas: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes: list[int] = list(replica_nodes) if isinstance(replica_nodes, tuple) else replica_nodes
        self.isr_nodes: list[int] = list(isr_nodes) if isinstance(isr_nodes, tuple) else isr_nodes
        self.offline_replicas: list[int] = list(offline_replicas) if isinstance(offline_replicas, tuple) else offline_replicas
        self.unknown_tags = unknown_tags


class MetadataResponseTopic(Struct):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    name: string 0+ nullable=12+ entity=topicName key
    topic_id: uuid 10+ ignorable
    is_internal: bool 1+ default=false ignorable
    partitions: []MetadataResponsePartition 0+
    topic_authorized_operations: int32 8+ default=-2147483648
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] | tuple[MetadataResponsePartition, ...] = (),
        topic_authorized_operations: int = -2147483648,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions: list[MetadataResponsePartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.topic_authorized_operations = topic_authorized_operations
        self.unknown_tags = unknown_tags


class MetadataResponse(Message):
    __slots__ = ("throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics", "cluster_authorized_operations", "error_code", "unknown_tags")
    API_KEY = 3
    VALID_VERSIONS = (0, 13)
    FLEXIBLE_VERSIONS = (9, 13)
    SCHEMA = """
    throttle_time_ms: int32 3+ ignorable
    brokers: []MetadataResponseBroker 0+
    cluster_id: string 2+ nullable=2+ default=null ignorable
    controller_id: int32 1+ default=-1 entity=brokerId ignorable
    topics: []MetadataResponseTopic 0+
    cluster_authorized_operations: int32 8-10 default=-2147483648
    error_code: int16 13+ ignorable
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] | tuple[MetadataResponseBroker, ...] = (),
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] | tuple[MetadataResponseTopic, ...] = (),
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers: list[MetadataResponseBroker] = list(brokers) if isinstance(brokers, tuple) else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics: list[MetadataResponseTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code
        self.unknown_tags = unknown_tags
