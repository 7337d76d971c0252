"""SyncGroupRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class SyncGroupRequestAssignment(Struct):
    __slots__ = ("member_id", "assignment", "unknown_tags")
    SCHEMA = """
    member_id: string 0+
    assignment: bytes 0+
    """

    def __init__(
        self,
        *,
        member_id: str = "",
        assignment: bytes = b"",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment
        self.unknown_tags = unknown_tags


class SyncGroupRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name", "assignments", "unknown_tags")
    API_KEY = 14
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (4, 5)
    SCHEMA = """
    group_id: string 0+ entity=groupId
    generation_id: int32 0+
    member_id: string 0+
    group_instance_id: string 3+ nullable=3+ default=null
    protocol_type: string 5+ nullable=5+ default=null ignorable
    protocol_name: string 5+ nullable=5+ default=null ignorable
    assignments: []SyncGroupRequestAssignment 0+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] | tuple[SyncGroupRequestAssignment, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments: list[SyncGroupRequestAssignment] = list(assignments) if isinstance(assignments, tuple) else assignments
        self.unknown_tags = unknown_tags
