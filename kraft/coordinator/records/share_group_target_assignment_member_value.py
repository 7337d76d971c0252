"""ShareGroupTargetAssignmentMemberValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicPartition(Struct):
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


class ShareGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("topic_partitions", "unknown_tags")
    API_KEY = 13
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    topic_partitions: []TopicPartition 0+
    """

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartition] | tuple[TopicPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_partitions: list[TopicPartition] = list(topic_partitions) if isinstance(topic_partitions, tuple) else topic_partitions
        self.unknown_tags = unknown_tags
