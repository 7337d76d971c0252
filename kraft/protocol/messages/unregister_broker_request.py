"""UnregisterBrokerRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class UnregisterBrokerRequest(Message):
    __slots__ = ("broker_id", "unknown_tags")
    API_KEY = 64
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    broker_id: int32 0+ entity=brokerId
    """

    def __init__(
        self,
        *,
        broker_id: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.unknown_tags = unknown_tags
