"""ConsumerGroupDescribeRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ConsumerGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations", "unknown_tags")
    API_KEY = 69
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    group_ids: []string 0+ entity=groupId
    include_authorized_operations: bool 0+
    """

    def __init__(
        self,
        *,
        group_ids: list[str] | tuple[str, ...] = (),
        include_authorized_operations: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_ids: list[str] = list(group_ids) if isinstance(group_ids, tuple) else group_ids
        self.include_authorized_operations = include_authorized_operations
        self.unknown_tags = unknown_tags
