"""ConsumerProtocolSubscription. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Bytes, Message, Struct, UnknownTags


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")
    SCHEMA = """
    topic: string 1+ entity=topicName key
    partitions: []int32 1+
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


class ConsumerProtocolSubscription(Message):
    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 3)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    topics: []string 0+
    user_data: bytes 0+ nullable=0+ default=null zero_copy
    owned_partitions: []TopicPartition 1+ ignorable
    generation_id: int32 2+ default=-1 ignorable
    rack_id: string 3+ nullable=3+ default=null ignorable
    """

    def __init__(
        self,
        *,
        topics: list[str] | tuple[str, ...] = (),
        user_data: Bytes | None = None,
        owned_partitions: list[TopicPartition] | tuple[TopicPartition, ...] = (),
        generation_id: int = -1,
        rack_id: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[str] = list(topics) if isinstance(topics, tuple) else topics
        self.user_data = user_data
        self.owned_partitions: list[TopicPartition] = list(owned_partitions) if isinstance(owned_partitions, tuple) else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id
        self.unknown_tags = unknown_tags
