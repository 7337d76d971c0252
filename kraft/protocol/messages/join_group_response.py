"""JoinGroupResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class JoinGroupResponseMember(Struct):
    __slots__ = ("member_id", "group_instance_id", "metadata", "unknown_tags")
    SCHEMA = """
    member_id: string 0+
    group_instance_id: string 5+ nullable=5+ default=null ignorable
    metadata: bytes 0+
    """

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata
        self.unknown_tags = unknown_tags


class JoinGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "generation_id", "protocol_type", "protocol_name", "leader", "skip_assignment", "member_id", "members", "unknown_tags")
    API_KEY = 11
    VALID_VERSIONS = (0, 9)
    FLEXIBLE_VERSIONS = (6, 9)
    SCHEMA = """
    throttle_time_ms: int32 2+ ignorable
    error_code: int16 0+
    generation_id: int32 0+ default=-1
    protocol_type: string 7+ nullable=7+ default=null ignorable
    protocol_name: string 0+ nullable=7+
    leader: string 0+
    skip_assignment: bool 9+ default=false
    member_id: string 0+
    members: []JoinGroupResponseMember 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] | tuple[JoinGroupResponseMember, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members: list[JoinGroupResponseMember] = list(members) if isinstance(members, tuple) else members
        self.unknown_tags = unknown_tags
