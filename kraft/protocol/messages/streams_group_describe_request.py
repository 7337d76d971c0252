"""StreamsGroupDescribeRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class StreamsGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations", "include_topology_description", "unknown_tags")
    API_KEY = 89
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    group_ids: []string 0+ entity=groupId
    include_authorized_operations: bool 0+
    include_topology_description: bool 1+ default=false
    """

    def __init__(
        self,
        *,
        group_ids: list[str] | tuple[str, ...] = (),
        include_authorized_operations: bool = False,
        include_topology_description: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_ids: list[str] = list(group_ids) if isinstance(group_ids, tuple) else group_ids
        self.include_authorized_operations = include_authorized_operations
        self.include_topology_description = include_topology_description
        self.unknown_tags = unknown_tags
