"""DescribeDelegationTokenRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribeDelegationTokenOwner(Struct):
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


class DescribeDelegationTokenRequest(Message):
    __slots__ = ("owners", "unknown_tags")
    API_KEY = 41
    VALID_VERSIONS = (1, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    owners: []DescribeDelegationTokenOwner 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenOwner] | tuple[DescribeDelegationTokenOwner, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.owners: list[DescribeDelegationTokenOwner] | None = list(owners) if isinstance(owners, tuple) else owners
        self.unknown_tags = unknown_tags
