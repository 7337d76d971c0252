"""LeaveGroupResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class MemberResponse(Struct):
    __slots__ = ("member_id", "group_instance_id", "error_code", "unknown_tags")
    SCHEMA = """
    member_id: string 3+
    group_instance_id: string 3+ nullable=3+
    error_code: int16 3+
    """

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code
        self.unknown_tags = unknown_tags


class LeaveGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "members", "unknown_tags")
    API_KEY = 13
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (4, 5)
    SCHEMA = """
    throttle_time_ms: int32 1+ ignorable
    error_code: int16 0+
    members: []MemberResponse 3+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] | tuple[MemberResponse, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members: list[MemberResponse] = list(members) if isinstance(members, tuple) else members
        self.unknown_tags = unknown_tags
