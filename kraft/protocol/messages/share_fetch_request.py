"""ShareFetchRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

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


class FetchPartition(Struct):
    __slots__ = ("partition_index", "partition_max_bytes", "acknowledgement_batches", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+ key
    partition_max_bytes: int32 0
    acknowledgement_batches: []AcknowledgementBatch 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_max_bytes: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] | tuple[AcknowledgementBatch, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.partition_max_bytes = partition_max_bytes
        self.acknowledgement_batches: list[AcknowledgementBatch] = list(acknowledgement_batches) if isinstance(acknowledgement_batches, tuple) else acknowledgement_batches
        self.unknown_tags = unknown_tags


class FetchTopic(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+ key
    partitions: []FetchPartition 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[FetchPartition] | tuple[FetchPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[FetchPartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class ForgottenTopic(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class ShareFetchRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes", "max_records", "batch_size", "share_acquire_mode", "is_renew_ack", "topics", "forgotten_topics_data", "unknown_tags")
    API_KEY = 78
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (1, 2)
    SCHEMA = """
    group_id: string 0+ nullable=0+ default=null entity=groupId
    member_id: string 0+ nullable=0+
    share_session_epoch: int32 0+
    max_wait_ms: int32 0+
    min_bytes: int32 0+
    max_bytes: int32 0+ default=0x7fffffff
    max_records: int32 1+
    batch_size: int32 1+
    share_acquire_mode: int8 2+ default=0 ignorable
    is_renew_ack: bool 2+ default=false
    topics: []FetchTopic 0+
    forgotten_topics_data: []ForgottenTopic 0+
    """

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[FetchTopic] | tuple[FetchTopic, ...] = (),
        forgotten_topics_data: list[ForgottenTopic] | tuple[ForgottenTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics: list[FetchTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.forgotten_topics_data: list[ForgottenTopic] = list(forgotten_topics_data) if isinstance(forgotten_topics_data, tuple) else forgotten_topics_data
        self.unknown_tags = unknown_tags
