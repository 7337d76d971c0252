"""BrokerRegistrationRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

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


class BrokerRegistrationRequest(Message):
    __slots__ = ("broker_id", "cluster_id", "incarnation_id", "listeners", "features", "rack", "is_migrating_zk_broker", "log_dirs", "previous_broker_epoch", "unknown_tags")
    API_KEY = 62
    VALID_VERSIONS = (0, 4)
    FLEXIBLE_VERSIONS = (0, 4)
    SCHEMA = """
    broker_id: int32 0+ entity=brokerId
    cluster_id: string 0+
    incarnation_id: uuid 0+
    listeners: []Listener 0+
    features: []Feature 0+
    rack: string 0+ nullable=0+
    is_migrating_zk_broker: bool 1+ default=false
    log_dirs: []uuid 2+ ignorable
    previous_broker_epoch: int64 3+ default=-1 ignorable
    """

    def __init__(
        self,
        *,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: bytes = ZERO_UUID,
        listeners: list[Listener] | tuple[Listener, ...] = (),
        features: list[Feature] | tuple[Feature, ...] = (),
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: list[bytes] | tuple[bytes, ...] = (),
        previous_broker_epoch: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners: list[Listener] = list(listeners) if isinstance(listeners, tuple) else listeners
        self.features: list[Feature] = list(features) if isinstance(features, tuple) else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs: list[bytes] = list(log_dirs) if isinstance(log_dirs, tuple) else log_dirs
        self.previous_broker_epoch = previous_broker_epoch
        self.unknown_tags = unknown_tags
