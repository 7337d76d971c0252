"""ProduceResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class BatchIndexAndErrorMessage(Struct):
    __slots__ = ("batch_index", "batch_index_error_message", "unknown_tags")
    SCHEMA = """
    batch_index: int32 8+
    batch_index_error_message: string 8+ nullable=8+ default=null
    """

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message
        self.unknown_tags = unknown_tags


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch", "unknown_tags")
    SCHEMA = """
    leader_id: int32 10+ default=-1 entity=brokerId
    leader_epoch: int32 10+ default=-1
    """

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags


class PartitionProduceResponse(Struct):
    __slots__ = ("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset", "record_errors", "error_message", "current_leader", "unknown_tags")
    SCHEMA = """
    index: int32 0+
    error_code: int16 0+
    base_offset: int64 0+
    log_append_time_ms: int64 2+ default=-1 ignorable
    log_start_offset: int64 5+ default=-1 ignorable
    record_errors: []BatchIndexAndErrorMessage 8+ ignorable
    error_message: string 8+ nullable=8+ default=null ignorable
    current_leader: LeaderIdAndEpoch 10+ tag=0@10+
    """

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] | tuple[BatchIndexAndErrorMessage, ...] = (),
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors: list[BatchIndexAndErrorMessage] = list(record_errors) if isinstance(record_errors, tuple) else record_errors
        self.error_message = error_message
        self.current_leader = current_leader
        self.unknown_tags = unknown_tags


class TopicProduceResponse(Struct):
    __slots__ = ("name", "topic_id", "partition_responses", "unknown_tags")
    SCHEMA = """
    name: string 0-12 entity=topicName key ignorable
    topic_id: uuid 13+ key ignorable
    partition_responses: []PartitionProduceResponse 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse] | tuple[PartitionProduceResponse, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses: list[PartitionProduceResponse] = list(partition_responses) if isinstance(partition_responses, tuple) else partition_responses
        self.unknown_tags = unknown_tags


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack", "unknown_tags")
    SCHEMA = """
    node_id: int32 10+ entity=brokerId key
    host: string 10+
    port: int32 10+
    rack: string 10+ nullable=10+ default=null
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


class ProduceResponse(Message):
    __slots__ = ("responses", "throttle_time_ms", "node_endpoints", "unknown_tags")
    API_KEY = 0
    VALID_VERSIONS = (3, 13)
    FLEXIBLE_VERSIONS = (9, 13)
    SCHEMA = """
    responses: []TopicProduceResponse 0+
    throttle_time_ms: int32 1+ default=0 ignorable
    node_endpoints: []NodeEndpoint 10+ tag=0@10+
    """

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse] | tuple[TopicProduceResponse, ...] = (),
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] | tuple[NodeEndpoint, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.responses: list[TopicProduceResponse] = list(responses) if isinstance(responses, tuple) else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints: list[NodeEndpoint] = list(node_endpoints) if isinstance(node_endpoints, tuple) else node_endpoints
        self.unknown_tags = unknown_tags
