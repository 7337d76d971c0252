"""LegacyOffsetCommitKey. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class LegacyOffsetCommitKey(Message):
    __slots__ = ("group", "topic", "partition", "unknown_tags")
    API_KEY = 0
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    group: string 0
    topic: string 0
    partition: int32 0
    """

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition
        self.unknown_tags = unknown_tags
