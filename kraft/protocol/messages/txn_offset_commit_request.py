"""TxnOffsetCommitRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class TxnOffsetCommitRequestPartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    committed_offset: int64 0+
    committed_leader_epoch: int32 2+ default=-1 ignorable
    committed_metadata: string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata
        self.unknown_tags = unknown_tags


class TxnOffsetCommitRequestTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0-5 entity=topicName ignorable
    topic_id: uuid 6+ ignorable
    partitions: []TxnOffsetCommitRequestPartition 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[TxnOffsetCommitRequestPartition] | tuple[TxnOffsetCommitRequestPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[TxnOffsetCommitRequestPartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class TxnOffsetCommitRequest(Message):
    __slots__ = ("transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id_or_member_epoch", "member_id", "group_instance_id", "topics", "unknown_tags")
    API_KEY = 28
    VALID_VERSIONS = (0, 6)
    FLEXIBLE_VERSIONS = (3, 6)
    SCHEMA = """
    transactional_id: string 0+ entity=transactionalId
    group_id: string 0+ entity=groupId
    producer_id: int64 0+ entity=producerId
    producer_epoch: int16 0+
    generation_id_or_member_epoch: int32 3+ default=-1
    member_id: string 3+
    group_instance_id: string 3+ nullable=3+ default=null
    topics: []TxnOffsetCommitRequestTopic 0+
    """

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] | tuple[TxnOffsetCommitRequestTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics: list[TxnOffsetCommitRequestTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
