"""ShareGroupHeartbeatRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ShareGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names", "unknown_tags")
    API_KEY = 76
    VALID_VERSIONS = (1, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    group_id: string 0+ entity=groupId
    member_id: string 0+
    member_epoch: int32 0+
    rack_id: string 0+ nullable=0+ default=null
    subscribed_topic_names: []string 0+ nullable=0+ default=null entity=topicName
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names
        self.unknown_tags = unknown_tags
