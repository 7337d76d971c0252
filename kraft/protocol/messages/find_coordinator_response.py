"""FindCoordinatorResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class Coordinator(Struct):
    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    key: string 4+
    node_id: int32 4+ entity=brokerId
    host: string 4+
    port: int32 4+
    error_code: int16 4+
    error_message: string 4+ nullable=4+ ignorable
    """

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class FindCoordinatorResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators", "unknown_tags")
    API_KEY = 10
    VALID_VERSIONS = (0, 6)
    FLEXIBLE_VERSIONS = (3, 6)
    SCHEMA = """
    throttle_time_ms: int32 1+ ignorable
    error_code: int16 0-3
    error_message: string 1-3 nullable=1-3 ignorable
    node_id: int32 0-3 entity=brokerId
    host: string 0-3
    port: int32 0-3
    coordinators: []Coordinator 4+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] | tuple[Coordinator, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators: list[Coordinator] = list(coordinators) if isinstance(coordinators, tuple) else coordinators
        self.unknown_tags = unknown_tags
