"""DescribeProducersResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ProducerState(Struct):
    __slots__ = ("producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch", "current_txn_start_offset", "unknown_tags")
    SCHEMA = """
    producer_id: int64 0+ entity=producerId
    producer_epoch: int32 0+
    last_sequence: int32 0+ default=-1
    last_timestamp: int64 0+ default=-1
    coordinator_epoch: int32 0+
    current_txn_start_offset: int64 0+ default=-1
    """

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset
        self.unknown_tags = unknown_tags


class PartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "error_message", "active_producers", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    active_producers: []ProducerState 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] | tuple[ProducerState, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers: list[ProducerState] = list(active_producers) if isinstance(active_producers, tuple) else active_producers
        self.unknown_tags = unknown_tags


class TopicResponse(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []PartitionResponse 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[PartitionResponse] | tuple[PartitionResponse, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[PartitionResponse] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class DescribeProducersResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 61
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    throttle_time_ms: int32 0+
    topics: []TopicResponse 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TopicResponse] | tuple[TopicResponse, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[TopicResponse] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
