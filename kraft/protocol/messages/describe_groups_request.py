"""DescribeGroupsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class DescribeGroupsRequest(Message):
    __slots__ = ("groups", "include_authorized_operations", "unknown_tags")
    API_KEY = 15
    VALID_VERSIONS = (0, 6)
    FLEXIBLE_VERSIONS = (5, 6)
    SCHEMA = """
    groups: []string 0+ entity=groupId
    include_authorized_operations: bool 3+
    """

    def __init__(
        self,
        *,
        groups: list[str] | tuple[str, ...] = (),
        include_authorized_operations: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.groups: list[str] = list(groups) if isinstance(groups, tuple) else groups
        self.include_authorized_operations = include_authorized_operations
        self.unknown_tags = unknown_tags
