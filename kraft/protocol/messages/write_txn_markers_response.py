"""WriteTxnMarkersResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class WritableTxnMarkerPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.unknown_tags = unknown_tags


class WritableTxnMarkerTopicResult(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []WritableTxnMarkerPartitionResult 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[WritableTxnMarkerPartitionResult] | tuple[WritableTxnMarkerPartitionResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[WritableTxnMarkerPartitionResult] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class WritableTxnMarkerResult(Struct):
    __slots__ = ("producer_id", "topics", "unknown_tags")
    SCHEMA = """
    producer_id: int64 0+ entity=producerId
    topics: []WritableTxnMarkerTopicResult 0+
    """

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: list[WritableTxnMarkerTopicResult] | tuple[WritableTxnMarkerTopicResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.topics: list[WritableTxnMarkerTopicResult] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags


class WriteTxnMarkersResponse(Message):
    __slots__ = ("markers", "unknown_tags")
    API_KEY = 27
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (1, 2)
    SCHEMA = """
    markers: []WritableTxnMarkerResult 0+
    """

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarkerResult] | tuple[WritableTxnMarkerResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.markers: list[WritableTxnMarkerResult] = list(markers) if isinstance(markers, tuple) else markers
        self.unknown_tags = unknown_tags
