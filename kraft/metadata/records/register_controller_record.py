"""RegisterControllerRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class ControllerEndpoint(Struct):
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


class ControllerFeature(Struct):
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


class RegisterControllerRecord(Message):
    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "end_points", "features", "unknown_tags")
    API_KEY = 27
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    controller_id: int32 0+
    incarnation_id: uuid 0+
    zk_migration_ready: bool 0+
    end_points: []ControllerEndpoint 0+
    features: []ControllerFeature 0+
    """

    def __init__(
        self,
        *,
        controller_id: int = 0,
        incarnation_id: bytes = ZERO_UUID,
        zk_migration_ready: bool = False,
        end_points: list[ControllerEndpoint] | tuple[ControllerEndpoint, ...] = (),
        features: list[ControllerFeature] | tuple[ControllerFeature, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.end_points: list[ControllerEndpoint] = list(end_points) if isinstance(end_points, tuple) else end_points
        self.features: list[ControllerFeature] = list(features) if isinstance(features, tuple) else features
        self.unknown_tags = unknown_tags
