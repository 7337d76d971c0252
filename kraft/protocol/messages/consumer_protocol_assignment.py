"""ConsumerProtocolAssignment. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Bytes, Message, Struct, UnknownTags


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")
    SCHEMA = """
    topic: string 0+ entity=topicName key
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class ConsumerProtocolAssignment(Message):
    __slots__ = ("assigned_partitions", "user_data", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 3)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    assigned_partitions: []TopicPartition 0+
    user_data: bytes 0+ nullable=0+ default=null zero_copy
    """

    def __init__(
        self,
        *,
        assigned_partitions: list[TopicPartition] | tuple[TopicPartition, ...] = (),
        user_data: Bytes | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.assigned_partitions: list[TopicPartition] = list(assigned_partitions) if isinstance(assigned_partitions, tuple) else assigned_partitions
        self.user_data = user_data
        self.unknown_tags = unknown_tags
