"""ShareGroupCurrentMemberAssignmentKey. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ShareGroupCurrentMemberAssignmentKey(Message):
    __slots__ = ("group_id", "member_id", "unknown_tags")
    API_KEY = 14
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    group_id: string 0
    member_id: string 0
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.unknown_tags = unknown_tags
