"""DescribeUserScramCredentialsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class CredentialInfo(Struct):
    __slots__ = ("mechanism", "iterations", "unknown_tags")
    SCHEMA = """
    mechanism: int8 0+
    iterations: int32 0+
    """

    def __init__(
        self,
        *,
        mechanism: int = 0,
        iterations: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations
        self.unknown_tags = unknown_tags


class DescribeUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message", "credential_infos", "unknown_tags")
    SCHEMA = """
    user: string 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    credential_infos: []CredentialInfo 0+
    """

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: list[CredentialInfo] | tuple[CredentialInfo, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos: list[CredentialInfo] = list(credential_infos) if isinstance(credential_infos, tuple) else credential_infos
        self.unknown_tags = unknown_tags


class DescribeUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results", "unknown_tags")
    API_KEY = 50
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    results: []DescribeUserScramCredentialsResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResult] | tuple[DescribeUserScramCredentialsResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results: list[DescribeUserScramCredentialsResult] = list(results) if isinstance(results, tuple) else results
        self.unknown_tags = unknown_tags
