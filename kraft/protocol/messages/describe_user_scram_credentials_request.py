"""DescribeUserScramCredentialsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class UserName(Struct):
    __slots__ = ("name", "unknown_tags")
    SCHEMA = """
    name: string 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.unknown_tags = unknown_tags


class DescribeUserScramCredentialsRequest(Message):
    __slots__ = ("users", "unknown_tags")
    API_KEY = 50
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    users: []UserName 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        users: list[UserName] | tuple[UserName, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.users: list[UserName] | None = list(users) if isinstance(users, tuple) else users
        self.unknown_tags = unknown_tags
