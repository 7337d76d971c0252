"""FetchSnapshotRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


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


class PartitionSnapshot(Struct):
    __slots__ = ("partition", "current_leader_epoch", "snapshot_id", "position", "replica_directory_id", "unknown_tags")
    SCHEMA = """
    partition: int32 0+
    current_leader_epoch: int32 0+
    snapshot_id: SnapshotId 0+
    position: int64 0+
    replica_directory_id: uuid 1+ tag=0@1+ ignorable
    """

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: SnapshotId | None = None,
        position: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id = SnapshotId() if snapshot_id is None else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id
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


class FetchSnapshotRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "max_bytes", "topics", "unknown_tags")
    API_KEY = 59
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    cluster_id: string 0+ nullable=0+ tag=0@0+ default=null
    replica_id: int32 0+ default=-1 entity=brokerId
    max_bytes: int32 0+ default=0x7fffffff
    topics: []TopicSnapshot 0+
    """

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[TopicSnapshot] | tuple[TopicSnapshot, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics: list[TopicSnapshot] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
