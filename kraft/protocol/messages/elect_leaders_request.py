"""ElectLeadersRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicPartitions(Struct):
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


class ElectLeadersRequest(Message):
    __slots__ = ("election_type", "topic_partitions", "timeout_ms", "unknown_tags")
    API_KEY = 43
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    election_type: int8 1+
    topic_partitions: []TopicPartitions 0+ nullable=0+
    timeout_ms: int32 0+ default=60000
    """

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | tuple[TopicPartitions, ...] | None = (),
        timeout_ms: int = 60000,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions: list[TopicPartitions] | None = list(topic_partitions) if isinstance(topic_partitions, tuple) else topic_partitions
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags
