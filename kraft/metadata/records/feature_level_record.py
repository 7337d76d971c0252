"""FeatureLevelRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class FeatureLevelRecord(Message):
    __slots__ = ("name", "feature_level", "unknown_tags")
    API_KEY = 12
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    name: string 0+
    feature_level: int16 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        feature_level: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.feature_level = feature_level
        self.unknown_tags = unknown_tags
