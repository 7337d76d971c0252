"""ShareAcknowledgeResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch", "unknown_tags")
    SCHEMA = """
    leader_id: int32 0+
    leader_epoch: int32 0+
    """

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags


class PartitionData(Struct):
    __slots__ = ("partition_index", "error_code", "error_message", "current_leader", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    current_leader: LeaderIdAndEpoch 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.unknown_tags = unknown_tags


class ShareAcknowledgeTopicResponse(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+ key
    partitions: []PartitionData 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | tuple[PartitionData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack", "unknown_tags")
    SCHEMA = """
    node_id: int32 0+ entity=brokerId key
    host: string 0+
    port: int32 0+
    rack: string 0+ nullable=0+ default=null
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


class ShareAcknowledgeResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints", "unknown_tags")
    API_KEY = 79
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (1, 2)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    acquisition_lock_timeout_ms: int32 2+ ignorable
    responses: []ShareAcknowledgeTopicResponse 0+
    node_endpoints: []NodeEndpoint 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareAcknowledgeTopicResponse] | tuple[ShareAcknowledgeTopicResponse, ...] = (),
        node_endpoints: list[NodeEndpoint] | tuple[NodeEndpoint, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses: list[ShareAcknowledgeTopicResponse] = list(responses) if isinstance(responses, tuple) else responses
        self.node_endpoints: list[NodeEndpoint] = list(node_endpoints) if isinstance(node_endpoints, tuple) else node_endpoints
        self.unknown_tags = unknown_tags
