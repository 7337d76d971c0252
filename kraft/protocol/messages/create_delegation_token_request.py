"""CreateDelegationTokenRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class CreatableRenewers(Struct):
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


class CreateDelegationTokenRequest(Message):
    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms", "unknown_tags")
    API_KEY = 38
    VALID_VERSIONS = (1, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    owner_principal_type: string 3+ nullable=3+
    owner_principal_name: string 3+ nullable=3+
    renewers: []CreatableRenewers 0+
    max_lifetime_ms: int64 0+
    """

    def __init__(
        self,
        *,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreatableRenewers] | tuple[CreatableRenewers, ...] = (),
        max_lifetime_ms: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers: list[CreatableRenewers] = list(renewers) if isinstance(renewers, tuple) else renewers
        self.max_lifetime_ms = max_lifetime_ms
        self.unknown_tags = unknown_tags
