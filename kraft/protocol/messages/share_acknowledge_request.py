"""ShareAcknowledgeRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class AcknowledgementBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "acknowledge_types", "unknown_tags")
    SCHEMA = """
    first_offset: int64 0+
    last_offset: int64 0+
    acknowledge_types: []int8 0+
    """

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types: list[int] = list(acknowledge_types) if isinstance(acknowledge_types, tuple) else acknowledge_types
        self.unknown_tags = unknown_tags


class AcknowledgePartition(Struct):
    __slots__ = ("partition_index", "acknowledgement_batches", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+ key
    acknowledgement_batches: []AcknowledgementBatch 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] | tuple[AcknowledgementBatch, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches: list[AcknowledgementBatch] = list(acknowledgement_batches) if isinstance(acknowledgement_batches, tuple) else acknowledgement_batches
        self.unknown_tags = unknown_tags


class AcknowledgeTopic(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+ key
    partitions: []AcknowledgePartition 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[AcknowledgePartition] | tuple[AcknowledgePartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[AcknowledgePartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class ShareAcknowledgeRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics", "unknown_tags")
    API_KEY = 79
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (1, 2)
    SCHEMA = """
    group_id: string 0+ nullable=0+ default=null entity=groupId
    member_id: string 0+ nullable=0+
    share_session_epoch: int32 0+
    is_renew_ack: bool 2+ default=false
    topics: []AcknowledgeTopic 0+
    """

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[AcknowledgeTopic] | tuple[AcknowledgeTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics: list[AcknowledgeTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
