"""RenewDelegationTokenResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class RenewDelegationTokenResponse(Message):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms", "unknown_tags")
    API_KEY = 39
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    error_code: int16 0+
    expiry_timestamp_ms: int64 0+
    throttle_time_ms: int32 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tags = unknown_tags
