"""ConsumerGroupMetadataValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ConsumerGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash", "unknown_tags")
    API_KEY = 3
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    epoch: int32 0+
    metadata_hash: int64 0+ tag=0@0+ default=0
    """

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.unknown_tags = unknown_tags
