"""HeartbeatRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class HeartbeatRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id", "unknown_tags")
    API_KEY = 12
    VALID_VERSIONS = (0, 4)
    FLEXIBLE_VERSIONS = (4, 4)
    SCHEMA = """
    group_id: string 0+ entity=groupId
    generation_id: int32 0+
    member_id: string 0+
    group_instance_id: string 3+ nullable=3+ default=null
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.unknown_tags = unknown_tags
