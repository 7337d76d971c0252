"""FenceBrokerRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class FenceBrokerRecord(Message):
    __slots__ = ("id", "epoch", "unknown_tags")
    API_KEY = 7
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    id: int32 0+ entity=brokerId
    epoch: int64 0+
    """

    def __init__(
        self,
        *,
        id: int = 0,
        epoch: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.id = id
        self.epoch = epoch
        self.unknown_tags = unknown_tags
