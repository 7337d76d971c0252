"""ProduceRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Bytes, Message, Struct, UnknownTags


class PartitionProduceData(Struct):
    __slots__ = ("index", "records", "unknown_tags")
    SCHEMA = """
    index: int32 0+
    records: records 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        index: int = 0,
        records: Bytes | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.index = index
        self.records = records
        self.unknown_tags = unknown_tags


class TopicProduceData(Struct):
    __slots__ = ("name", "topic_id", "partition_data", "unknown_tags")
    SCHEMA = """
    name: string 0-12 entity=topicName key ignorable
    topic_id: uuid 13+ key ignorable
    partition_data: []PartitionProduceData 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_data: list[PartitionProduceData] | tuple[PartitionProduceData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data: list[PartitionProduceData] = list(partition_data) if isinstance(partition_data, tuple) else partition_data
        self.unknown_tags = unknown_tags


class ProduceRequest(Message):
    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data", "unknown_tags")
    API_KEY = 0
    VALID_VERSIONS = (3, 13)
    FLEXIBLE_VERSIONS = (9, 13)
    SCHEMA = """
    transactional_id: string 3+ nullable=3+ default=null entity=transactionalId
    acks: int16 0+
    timeout_ms: int32 0+
    topic_data: []TopicProduceData 0+
    """

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] | tuple[TopicProduceData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data: list[TopicProduceData] = list(topic_data) if isinstance(topic_data, tuple) else topic_data
        self.unknown_tags = unknown_tags
