"""DescribeGroupsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribedGroupMember(Struct):
    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment", "unknown_tags")
    SCHEMA = """
    member_id: string 0+
    group_instance_id: string 4+ nullable=4+ default=null ignorable
    client_id: string 0+
    client_host: string 0+
    member_metadata: bytes 0+
    member_assignment: bytes 0+
    """

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment
        self.unknown_tags = unknown_tags


class DescribedGroup(Struct):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "protocol_type", "protocol_data", "members", "authorized_operations", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    error_message: string 6+ nullable=6+ default=null
    group_id: string 0+ entity=groupId
    group_state: string 0+
    protocol_type: string 0+
    protocol_data: string 0+
    members: []DescribedGroupMember 0+
    authorized_operations: int32 3+ default=-2147483648
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] | tuple[DescribedGroupMember, ...] = (),
        authorized_operations: int = -2147483648,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members: list[DescribedGroupMember] = list(members) if isinstance(members, tuple) else members
        self.authorized_operations = authorized_operations
        self.unknown_tags = unknown_tags


class DescribeGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups", "unknown_tags")
    API_KEY = 15
    VALID_VERSIONS = (0, 6)
    FLEXIBLE_VERSIONS = (5, 6)
    SCHEMA = """
    throttle_time_ms: int32 1+ ignorable
    groups: []DescribedGroup 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] | tuple[DescribedGroup, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribedGroup] = list(groups) if isinstance(groups, tuple) else groups
        self.unknown_tags = unknown_tags
