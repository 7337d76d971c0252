"""ClearElrRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ClearElrRecord(Message):
    __slots__ = ("topic_name", "unknown_tags")
    API_KEY = 28
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    topic_name: string 0+ entity=topicName
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.unknown_tags = unknown_tags
