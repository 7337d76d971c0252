"""UnregisterControllerRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class UnregisterControllerRecord(Message):
    __slots__ = ("controller_id", "unknown_tags")
    API_KEY = 29
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    controller_id: int32 0+
    """

    def __init__(
        self,
        *,
        controller_id: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.controller_id = controller_id
        self.unknown_tags = unknown_tags
