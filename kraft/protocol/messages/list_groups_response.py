"""ListGroupsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ListedGroup(Struct):
    __slots__ = ("group_id", "protocol_type", "group_state", "group_type", "unknown_tags")
    SCHEMA = """
    group_id: string 0+ entity=groupId
    protocol_type: string 0+
    group_state: string 4+ ignorable
    group_type: string 5+ ignorable
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type
        self.unknown_tags = unknown_tags


class ListGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "groups", "unknown_tags")
    API_KEY = 16
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (3, 5)
    SCHEMA = """
    throttle_time_ms: int32 1+ ignorable
    error_code: int16 0+
    groups: []ListedGroup 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListedGroup] | tuple[ListedGroup, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups: list[ListedGroup] = list(groups) if isinstance(groups, tuple) else groups
        self.unknown_tags = unknown_tags
