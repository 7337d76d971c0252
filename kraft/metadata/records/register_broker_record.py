"""RegisterBrokerRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class BrokerEndpoint(Struct):
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


class BrokerFeature(Struct):
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


class RegisterBrokerRecord(Message):
    __slots__ = ("broker_id", "is_migrating_zk_broker", "incarnation_id", "broker_epoch", "end_points", "features", "rack", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs", "unknown_tags")
    API_KEY = 0
    VALID_VERSIONS = (0, 4)
    FLEXIBLE_VERSIONS = (0, 4)
    SCHEMA = """
    broker_id: int32 0+ entity=brokerId
    is_migrating_zk_broker: bool 2+ default=false
    incarnation_id: uuid 0+
    broker_epoch: int64 0+
    end_points: []BrokerEndpoint 0+
    features: []BrokerFeature 0+
    rack: string 0+ nullable=0+
    fenced: bool 0+ default=true
    in_controlled_shutdown: bool 1+ default=false
    log_dirs: []uuid 3+ tag=0@3+
    cordoned_log_dirs: []uuid 4+ nullable=4+ tag=1@4+ default=null
    """

    def __init__(
        self,
        *,
        broker_id: int = 0,
        is_migrating_zk_broker: bool = False,
        incarnation_id: bytes = ZERO_UUID,
        broker_epoch: int = 0,
        end_points: list[BrokerEndpoint] | tuple[BrokerEndpoint, ...] = (),
        features: list[BrokerFeature] | tuple[BrokerFeature, ...] = (),
        rack: str | None = "",
        fenced: bool = True,
        in_controlled_shutdown: bool = False,
        log_dirs: list[bytes] | tuple[bytes, ...] = (),
        cordoned_log_dirs: list[bytes] | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.incarnation_id = incarnation_id
        self.broker_epoch = broker_epoch
        self.end_points: list[BrokerEndpoint] = list(end_points) if isinstance(end_points, tuple) else end_points
        self.features: list[BrokerFeature] = list(features) if isinstance(features, tuple) else features
        self.rack = rack
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs: list[bytes] = list(log_dirs) if isinstance(log_dirs, tuple) else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs
        self.unknown_tags = unknown_tags
