"""JoinGroupRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class JoinGroupRequestProtocol(Struct):
    __slots__ = ("name", "metadata", "unknown_tags")
    SCHEMA = """
    name: string 0+ key
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


class JoinGroupRequest(Message):
    __slots__ = ("group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id", "protocol_type", "protocols", "reason", "unknown_tags")
    API_KEY = 11
    VALID_VERSIONS = (0, 9)
    FLEXIBLE_VERSIONS = (6, 9)
    SCHEMA = """
    group_id: string 0+ entity=groupId
    session_timeout_ms: int32 0+
    rebalance_timeout_ms: int32 1+ default=-1 ignorable
    member_id: string 0+
    group_instance_id: string 5+ nullable=5+ default=null
    protocol_type: string 0+
    protocols: []JoinGroupRequestProtocol 0+
    reason: string 8+ nullable=8+ default=null ignorable
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] | tuple[JoinGroupRequestProtocol, ...] = (),
        reason: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols: list[JoinGroupRequestProtocol] = list(protocols) if isinstance(protocols, tuple) else protocols
        self.reason = reason
        self.unknown_tags = unknown_tags
