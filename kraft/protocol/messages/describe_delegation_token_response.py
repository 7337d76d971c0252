"""DescribeDelegationTokenResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribedDelegationTokenRenewer(Struct):
    __slots__ = ("principal_type", "principal_name", "unknown_tags")
    SCHEMA = """
    principal_type: string 0+
    principal_name: string 0+
    """

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.unknown_tags = unknown_tags


class DescribedDelegationToken(Struct):
    __slots__ = ("principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name", "issue_timestamp", "expiry_timestamp", "max_timestamp", "token_id", "hmac", "renewers", "unknown_tags")
    SCHEMA = """
    principal_type: string 0+
    principal_name: string 0+
    token_requester_principal_type: string 3+
    token_requester_principal_name: string 3+
    issue_timestamp: int64 0+
    expiry_timestamp: int64 0+
    max_timestamp: int64 0+
    token_id: string 0+
    hmac: bytes 0+
    renewers: []DescribedDelegationTokenRenewer 0+
    """

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribedDelegationTokenRenewer] | tuple[DescribedDelegationTokenRenewer, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers: list[DescribedDelegationTokenRenewer] = list(renewers) if isinstance(renewers, tuple) else renewers
        self.unknown_tags = unknown_tags


class DescribeDelegationTokenResponse(Message):
    __slots__ = ("error_code", "tokens", "throttle_time_ms", "unknown_tags")
    API_KEY = 41
    VALID_VERSIONS = (1, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    error_code: int16 0+
    tokens: []DescribedDelegationToken 0+
    throttle_time_ms: int32 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        tokens: list[DescribedDelegationToken] | tuple[DescribedDelegationToken, ...] = (),
        throttle_time_ms: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.tokens: list[DescribedDelegationToken] = list(tokens) if isinstance(tokens, tuple) else tokens
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tags = unknown_tags
