"""The limits of a node's listeners, from Kafka's keys, and how they follow the dynamic configuration.

`max.connections` and `max.connection.creation.rate`, for all listeners or for one (`listener.name.<name>.<key>`), and
`max.connections.per.ip` with its overrides can be altered while the node runs. A lower limit for all listeners closes
connections above it; the other limits apply to new connections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kraft.common.config.endpoints import Endpoint, host_counts
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resources import listener_key
from kraft.common.errors import ConfigurationError
from kraft.common.logging import Loggers
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.metadata.image.configs_image import ConfigsImage
from kraft.metadata.metadata_cache import MetadataCache
from kraft.metadata.publisher import MetadataUpdate
from kraft.network.limits import ConnectionCounts, ConnectionLimits, ConnectionPace
from kraft.network.logins import Logins
from kraft.network.socket_server import SocketServer
from kraft.replication.topic_configs import ConfigView
from kraft.security.delegation_tokens import TokenCredentials
from kraft.security.principal_mapping import PrincipalMapping
from kraft.server.events.audit import AuditLog
from kraft.server.security.logins import NodeLogins, gate, with_tokens
from kraft.server.security.token_keys import TokenKeys
from kraft.world.ports import Stream, World

NO_LIMIT: Final = 2**31 - 1
CREATION_RATE: Final = "max.connection.creation.rate"
PRINCIPAL_RULES: Final = "ssl.principal.mapping.rules"


def connection_limits(config: NodeConfig, listener: str) -> ConnectionLimits:
    """The connection limits of one listener, from Kafka's keys."""
    # What is in the log and does not parse is passed over.
    overrides, _ = host_counts(config.text("max.connections.per.ip.overrides"))
    idle_ms = config.integer("connections.max.idle.ms")
    queued = config.integer("queued.max.request.bytes")
    return ConnectionLimits(
        connections_max=config.integer("max.connections"),
        listener_connections_max=config.of_listener(listener, "max.connections", NO_LIMIT),
        creation_rate_max=config.integer(CREATION_RATE),
        listener_creation_rate_max=config.of_listener(listener, CREATION_RATE, NO_LIMIT),
        is_protected=listener == config.inter_broker_listener_name and len(config.broker_listeners) > 1,
        connections_per_ip_max=config.integer("max.connections.per.ip"),
        connections_per_ip_overrides=overrides,
        request_bytes_max=config.integer("socket.request.max.bytes"),
        queued_request_bytes_max=queued if queued > 0 else 256 << 20,
        idle_seconds_max=idle_ms / 1000 if idle_ms >= 0 else 1e9,
    )


def socket_servers(
    world: World,
    config: NodeConfig,
    listeners: Sequence[Endpoint],
    counts: ConnectionCounts,
    dispatcher: RequestDispatcher,
    metadata: MetadataCache,
    loggers: Loggers,
    audit: AuditLog,
    logins: NodeLogins,
    pace: ConnectionPace | None = None,
    token_keys: TokenKeys | None = None,
) -> dict[str, SocketServer]:
    """One server for each listener, by listener name."""
    log, names = loggers.get("network"), [listener.name for listener in listeners]
    servers = {}
    secret = config.optional_text("delegation.token.secret.key") or None
    tokens = None if secret is None else TokenCredentials(secret)
    for name in names:
        settings = with_tokens(logins.of_listener(name), name, token_keys)
        servers[name] = SocketServer(
            world,
            name,
            connection_limits(config, name),
            counts,
            gate(settings, dispatcher, metadata, world, audit.logins.of_listener(name), tokens),
            log,
            pace,
            identify_by_certificate(config, name),
            None if settings is None else Logins(world.clock, settings.message_bytes_max),
            audit.logins.of_listener(name),
        )
    return servers


def identify_by_certificate(config: NodeConfig, listener: str) -> Callable[[Stream], str]:
    """The function that maps a client's certificate, if it has one, to its principal. Raises ConfigurationError."""
    key, rules = principal_rules(config, listener)
    try:
        mapping = PrincipalMapping(rules)
    except ValueError as problem:
        raise ConfigurationError([f"{key}: {problem}"]) from problem
    return lambda stream: mapping.principal(stream.peer_certificate)


def principal_rules(config: NodeConfig, listener: str) -> tuple[str, str]:
    """The key that holds a listener's rules for mapping certificates to principals, and the rules."""
    key = listener_key(listener, PRINCIPAL_RULES)
    key = key if key in config.values else PRINCIPAL_RULES
    return key, config.text(key)


class DynamicConnectionLimits:
    """A metadata publisher that applies changed limits."""

    def __init__(self, configs: ConfigView, servers: Sequence[SocketServer]) -> None:
        self._configs = configs
        self._servers = servers
        self._seen: ConfigsImage | None = None

    def publish(self, update: MetadataUpdate) -> None:
        if update.image.configs is self._seen:
            return
        self._seen = update.image.configs
        config = self._configs.effective(update.image)
        for server in self._servers:
            server.take_limits(connection_limits(config, server.name))
