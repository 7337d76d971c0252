"""FetchSnapshotResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Bytes, Message, Struct, UnknownTags


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch", "unknown_tags")
    SCHEMA = """
    end_offset: int64 0+
    epoch: int32 0+
    """

    def __init__(
        self,
        *,
        end_offset: int = 0,
        epoch: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
        self.unknown_tags = unknown_tags


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch", "unknown_tags")
    SCHEMA = """
    leader_id: int32 0+ entity=brokerId
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


class PartitionSnapshot(Struct):
    __slots__ = ("index", "error_code", "snapshot_id", "current_leader", "size", "position", "unaligned_records", "unknown_tags")
    SCHEMA = """
    index: int32 0+
    error_code: int16 0+
    snapshot_id: SnapshotId 0+
    current_leader: LeaderIdAndEpoch 0+ tag=0@0+
    size: int64 0+
    position: int64 0+
    unaligned_records: records 0+
    """

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: SnapshotId | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        size: int = 0,
        position: int = 0,
        unaligned_records: Bytes | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id = SnapshotId() if snapshot_id is None else snapshot_id
        self.current_leader = current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records
        self.unknown_tags = unknown_tags


class TopicSnapshot(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []PartitionSnapshot 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[PartitionSnapshot] | tuple[PartitionSnapshot, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[PartitionSnapshot] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "unknown_tags")
    SCHEMA = """
    node_id: int32 1+ entity=brokerId key
    host: string 1+
    port: uint16 1+
    """

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags


class FetchSnapshotResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics", "node_endpoints", "unknown_tags")
    API_KEY = 59
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    throttle_time_ms: int32 0+ ignorable
    error_code: int16 0+
    topics: []TopicSnapshot 0+
    node_endpoints: []NodeEndpoint 1+ tag=0@1+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[TopicSnapshot] | tuple[TopicSnapshot, ...] = (),
        node_endpoints: list[NodeEndpoint] | tuple[NodeEndpoint, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics: list[TopicSnapshot] = list(topics) if isinstance(topics, tuple) else topics
        self.node_endpoints: list[NodeEndpoint] = list(node_endpoints) if isinstance(node_endpoints, tuple) else node_endpoints
        self.unknown_tags = unknown_tags
