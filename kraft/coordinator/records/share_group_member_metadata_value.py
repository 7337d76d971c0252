"""ShareGroupMemberMetadataValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ShareGroupMemberMetadataValue(Message):
    __slots__ = ("rack_id", "client_id", "client_host", "subscribed_topic_names", "unknown_tags")
    API_KEY = 10
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    rack_id: string 0+ nullable=0+
    client_id: string 0+
    client_host: string 0+
    subscribed_topic_names: []string 0+
    """

    def __init__(
        self,
        *,
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | tuple[str, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names: list[str] = list(subscribed_topic_names) if isinstance(subscribed_topic_names, tuple) else subscribed_topic_names
        self.unknown_tags = unknown_tags
