"""VoteRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionData(Struct):
    __slots__ = ("partition_index", "replica_epoch", "replica_id", "replica_directory_id", "voter_directory_id", "last_offset_epoch", "last_offset", "pre_vote", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    replica_epoch: int32 0+
    replica_id: int32 0+ entity=brokerId
    replica_directory_id: uuid 1+ ignorable
    voter_directory_id: uuid 1+ ignorable
    last_offset_epoch: int32 0+
    last_offset: int64 0+
    pre_vote: bool 2+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replica_epoch: int = 0,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        voter_directory_id: bytes = ZERO_UUID,
        last_offset_epoch: int = 0,
        last_offset: int = 0,
        pre_vote: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote
        self.unknown_tags = unknown_tags


class TopicData(Struct):
    __slots__ = ("topic_name", "partitions", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName
    partitions: []PartitionData 0+
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[PartitionData] | tuple[PartitionData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionData] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class VoteRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics", "unknown_tags")
    API_KEY = 52
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (0, 2)
    SCHEMA = """
    cluster_id: string 0+ nullable=0+ default=null
    voter_id: int32 1+ default=-1 entity=brokerId ignorable
    topics: []TopicData 0+
    """

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[TopicData] | tuple[TopicData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics: list[TopicData] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
