"""RenewDelegationTokenRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class RenewDelegationTokenRequest(Message):
    __slots__ = ("hmac", "renew_period_ms", "unknown_tags")
    API_KEY = 39
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    hmac: bytes 0+
    renew_period_ms: int64 0+
    """

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        renew_period_ms: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms
        self.unknown_tags = unknown_tags
