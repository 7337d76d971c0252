"""ConsumerGroupMemberMetadataValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ClassicProtocol(Struct):
    __slots__ = ("name", "metadata", "unknown_tags")
    SCHEMA = """
    name: string 0+
    metadata: bytes 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b"",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.metadata = metadata
        self.unknown_tags = unknown_tags


class ClassicMemberMetadata(Struct):
    __slots__ = ("session_timeout_ms", "supported_protocols", "unknown_tags")
    SCHEMA = """
    session_timeout_ms: int32 0+
    supported_protocols: []ClassicProtocol 0+
    """

    def __init__(
        self,
        *,
        session_timeout_ms: int = 0,
        supported_protocols: list[ClassicProtocol] | tuple[ClassicProtocol, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols: list[ClassicProtocol] = list(supported_protocols) if isinstance(supported_protocols, tuple) else supported_protocols
        self.unknown_tags = unknown_tags


class ConsumerGroupMemberMetadataValue(Message):
    __slots__ = ("instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex", "rebalance_timeout_ms", "server_assignor", "classic_member_metadata", "unknown_tags")
    API_KEY = 5
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    instance_id: string 0+ nullable=0+
    rack_id: string 0+ nullable=0+
    client_id: string 0+
    client_host: string 0+
    subscribed_topic_names: []string 0+
    subscribed_topic_regex: string 0+ nullable=0+
    rebalance_timeout_ms: int32 0+ default=-1
    server_assignor: string 0+ nullable=0+
    classic_member_metadata: ClassicMemberMetadata 0+ nullable=0+ tag=0@0+
    """

    def __init__(
        self,
        *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | tuple[str, ...] = (),
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ClassicMemberMetadata | None | tuple[()] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names: list[str] = list(subscribed_topic_names) if isinstance(subscribed_topic_names, tuple) else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = ClassicMemberMetadata() if isinstance(classic_member_metadata, tuple) else classic_member_metadata
        self.unknown_tags = unknown_tags
