"""EndTxnMarker. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class EndTxnMarker(Message):
    __slots__ = ("coordinator_epoch", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    coordinator_epoch: int32 0+
    """

    def __init__(
        self,
        *,
        coordinator_epoch: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch
        self.unknown_tags = unknown_tags
