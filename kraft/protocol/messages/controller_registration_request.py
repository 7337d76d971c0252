"""ControllerRegistrationRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class Listener(Struct):
    __slots__ = ("name", "host", "port", "security_protocol", "unknown_tags")
    SCHEMA = """
    name: string 0+ key
    host: string 0+
    port: uint16 0+
    security_protocol: int16 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol
        self.unknown_tags = unknown_tags


class Feature(Struct):
    __slots__ = ("name", "min_supported_version", "max_supported_version", "unknown_tags")
    SCHEMA = """
    name: string 0+ key
    min_supported_version: int16 0+
    max_supported_version: int16 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version
        self.unknown_tags = unknown_tags


class ControllerRegistrationRequest(Message):
    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "listeners", "features", "unknown_tags")
    API_KEY = 70
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    controller_id: int32 0+
    incarnation_id: uuid 0+
    zk_migration_ready: bool 0+
    listeners: []Listener 0+
    features: []Feature 0+
    """

    def __init__(
        self,
        *,
        controller_id: int = 0,
        incarnation_id: bytes = ZERO_UUID,
        zk_migration_ready: bool = False,
        listeners: list[Listener] | tuple[Listener, ...] = (),
        features: list[Feature] | tuple[Feature, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners: list[Listener] = list(listeners) if isinstance(listeners, tuple) else listeners
        self.features: list[Feature] = list(features) if isinstance(features, tuple) else features
        self.unknown_tags = unknown_tags
