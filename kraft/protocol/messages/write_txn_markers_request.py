"""WriteTxnMarkersRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class WritableTxnMarkerTopic(Struct):
    __slots__ = ("name", "partition_indexes", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partition_indexes: []int32 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partition_indexes: list[int] = list(partition_indexes) if isinstance(partition_indexes, tuple) else partition_indexes
        self.unknown_tags = unknown_tags


class WritableTxnMarker(Struct):
    __slots__ = ("producer_id", "producer_epoch", "transaction_result", "topics", "coordinator_epoch", "transaction_version", "unknown_tags")
    SCHEMA = """
    producer_id: int64 0+ entity=producerId
    producer_epoch: int16 0+
    transaction_result: bool 0+
    topics: []WritableTxnMarkerTopic 0+
    coordinator_epoch: int32 0+
    transaction_version: int8 2+ default=0 ignorable
    """

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] | tuple[WritableTxnMarkerTopic, ...] = (),
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics: list[WritableTxnMarkerTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.unknown_tags = unknown_tags


class WriteTxnMarkersRequest(Message):
    __slots__ = ("markers", "unknown_tags")
    API_KEY = 27
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (1, 2)
    SCHEMA = """
    markers: []WritableTxnMarker 0+
    """

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarker] | tuple[WritableTxnMarker, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.markers: list[WritableTxnMarker] = list(markers) if isinstance(markers, tuple) else markers
        self.unknown_tags = unknown_tags
