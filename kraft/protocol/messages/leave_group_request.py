"""LeaveGroupRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class MemberIdentity(Struct):
    __slots__ = ("member_id", "group_instance_id", "reason", "unknown_tags")
    SCHEMA = """
    member_id: string 3+
    group_instance_id: string 3+ nullable=3+ default=null
    reason: string 5+ nullable=5+ default=null ignorable
    """

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason
        self.unknown_tags = unknown_tags


class LeaveGroupRequest(Message):
    __slots__ = ("group_id", "member_id", "members", "unknown_tags")
    API_KEY = 13
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (4, 5)
    SCHEMA = """
    group_id: string 0+ entity=groupId
    member_id: string 0-2
    members: []MemberIdentity 3+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        members: list[MemberIdentity] | tuple[MemberIdentity, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members: list[MemberIdentity] = list(members) if isinstance(members, tuple) else members
        self.unknown_tags = unknown_tags
