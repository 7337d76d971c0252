"""SnapshotHeaderRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class SnapshotHeaderRecord(Message):
    __slots__ = ("version", "last_contained_log_timestamp", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    version: int16 0+
    last_contained_log_timestamp: int64 0+
    """

    def __init__(
        self,
        *,
        version: int = 0,
        last_contained_log_timestamp: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp
        self.unknown_tags = unknown_tags
