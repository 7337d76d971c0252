"""ConsumerGroupRegularExpressionValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ConsumerGroupRegularExpressionValue(Message):
    __slots__ = ("topics", "version", "timestamp", "unknown_tags")
    API_KEY = 16
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    topics: []string 0+
    version: int64 0+
    timestamp: int64 0+
    """

    def __init__(
        self,
        *,
        topics: list[str] | tuple[str, ...] = (),
        version: int = 0,
        timestamp: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[str] = list(topics) if isinstance(topics, tuple) else topics
        self.version = version
        self.timestamp = timestamp
        self.unknown_tags = unknown_tags
