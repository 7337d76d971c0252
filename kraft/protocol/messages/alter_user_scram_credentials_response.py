"""AlterUserScramCredentialsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AlterUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    user: string 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class AlterUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "results", "unknown_tags")
    API_KEY = 51
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    throttle_time_ms: int32 0+
    results: []AlterUserScramCredentialsResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResult] | tuple[AlterUserScramCredentialsResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[AlterUserScramCredentialsResult] = list(results) if isinstance(results, tuple) else results
        self.unknown_tags = unknown_tags
