"""OffsetForLeaderEpochRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class OffsetForLeaderPartition(Struct):
    __slots__ = ("partition", "current_leader_epoch", "leader_epoch", "unknown_tags")
    SCHEMA = """
    partition: int32 0+
    current_leader_epoch: int32 2+ default=-1 ignorable
    leader_epoch: int32 0+
    """

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags


class OffsetForLeaderTopic(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")
    SCHEMA = """
    topic: string 0+ entity=topicName key
    partitions: []OffsetForLeaderPartition 0+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[OffsetForLeaderPartition] | tuple[OffsetForLeaderPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.partitions: list[OffsetForLeaderPartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class OffsetForLeaderEpochRequest(Message):
    __slots__ = ("replica_id", "topics", "unknown_tags")
    API_KEY = 23
    VALID_VERSIONS = (2, 4)
    FLEXIBLE_VERSIONS = (4, 4)
    SCHEMA = """
    replica_id: int32 3+ default=-2 entity=brokerId ignorable
    topics: []OffsetForLeaderTopic 0+
    """

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: list[OffsetForLeaderTopic] | tuple[OffsetForLeaderTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.replica_id = replica_id
        self.topics: list[OffsetForLeaderTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
