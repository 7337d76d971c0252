"""Checks of combinations of values: pairs that must be in order, and combinations that cannot work. Each check returns
messages."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from kraft.common.config.endpoints import PER_IP_OVERRIDES, host_counts
from kraft.common.config.node.cordons import CORDONED_LOG_DIRS, cordons_complaint
from kraft.common.config.types import Value

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
KEYS_OF_AUTHORIZER: Final = frozenset(("super.users", "allow.everyone.if.no.acl.found"))
"""Keys that only an authorizer reads. They are not in Kafka's table of keys, so a node without an authorizer does not
check their values."""

_IN_ORDER: Final = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.session.timeout.ms", "group.share.session.timeout.ms"),
    ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.assignment.interval.ms", "group.share.assignment.interval.ms"),
    ("group.share.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    ("group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("group.share.min.delivery.count.limit", "group.share.delivery.count.limit"),
    ("group.share.delivery.count.limit", "group.share.max.delivery.count.limit"),
    ("group.share.min.partition.max.record.locks", "group.share.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", "group.share.max.partition.max.record.locks"),
    ("group.share.max.size", "group.share.max.share.sessions"),
    ("group.streams.min.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.min.session.timeout.ms", "group.streams.session.timeout.ms"),
    ("group.streams.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"),
    ("delegation.token.expiry.time.ms", "delegation.token.max.lifetime.ms"),
)
"""Pairs of keys: the first must not exceed the second."""

_BELOW: Final = (
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms"),
)
"""Pairs of keys: the first must be less than the second."""

_REPLICA_SELECTORS: Final = (
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.LeaderSelector",
)
AUTHENTICATION: Final = "kraft.admin.authentication"
_SECURED: Final = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")
_ASSIGNORS: Final = {"group.consumer.assignors": ("uniform", "range"), "group.streams.assignors": ("sticky",)}
_CODECS: Final = range(5)
_CLEANER_BUFFER_MIN: Final = 1024 * 1024


def check_together(config: NodeConfig) -> list[str]:
    """The messages about every combination that cannot work."""
    problems = [
        f"{_origin(config, low, high)}: {low} ({config[low]}) must not exceed {high} ({config[high]})"
        for low, high in _IN_ORDER
        if _above(config[low], config[high])
    ]
    problems += [
        f"{_origin(config, low, high)}: {low} ({config[low]}) must be smaller than {high} ({config[high]})"
        for low, high in _BELOW
        if _above(config[low], config[high]) or config[low] == config[high]
    ]
    checks = (_check_retention, _check_memory, _check_choices, _check_tiering, _check_admin, _check_cordons)
    return problems + [problem for check in checks for problem in check(config)]


def _above(low: Value, high: Value) -> bool:
    return isinstance(low, int | float) and isinstance(high, int | float) and low > high


def _origin(config: NodeConfig, *names: str) -> str:
    """The origin of the first of the keys that is set: the mistake is most likely there."""
    return next((config.settings[name].origin for name in names if name in config.settings), "default")


def _check_retention(config: NodeConfig) -> list[str]:
    return [
        f"{_origin(config, name)}: {name} must be -1 (for ever) or at least 1"
        for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
        if (value := config.optional_integer(name)) is not None and value != -1 and value < 1
    ]


def _check_tiering(config: NodeConfig) -> list[str]:
    name, uri = "remote.log.storage.system.enable", "kraft.remote.storage.uri"
    if not config.flag(name) or config.optional_text(uri) is not None:
        return []
    return [
        f"{_origin(config, name)}: {name} needs {uri}: file:///directory, s3://bucket/prefix, gs://bucket/prefix or "
        "az://container/prefix"
    ]


def _check_cordons(config: NodeConfig) -> list[str]:
    complaint = cordons_complaint(config.texts(CORDONED_LOG_DIRS), config) if config.is_broker else None
    return [] if complaint is None else [f"{_origin(config, CORDONED_LOG_DIRS)}: {complaint}"]


def _check_memory(config: NodeConfig) -> list[str]:
    problems = []
    name = "log.cleaner.dedupe.buffer.size"
    if config.integer(name) <= _CLEANER_BUFFER_MIN:
        problems.append(f"{_origin(config, name)}: {name} must be more than {_CLEANER_BUFFER_MIN}")
    queued, largest = config.integer("queued.max.request.bytes"), config.integer("socket.request.max.bytes")
    if 0 < queued < largest:
        origin = _origin(config, "queued.max.request.bytes")
        problems.append(
            f"{origin}: queued.max.request.bytes ({queued}) must hold one largest request "
            f"(socket.request.max.bytes, {largest})"
        )
    return problems


def super_users(text: str) -> frozenset[str]:
    """The principals in a value of super.users."""
    return frozenset(user.strip() for user in text.split(";") if user.strip())


def _check_authorizer(config: NodeConfig) -> list[str]:
    """Check the class name of the authorizer, the principals in super.users, and the principal of the HTTP admin."""
    problems = []
    name = "authorizer.class.name"
    authorizer = config.text(name)
    if authorizer not in ("", STANDARD_AUTHORIZER):
        problems.append(
            f"{_origin(config, name)}: {name} {authorizer} cannot be loaded; built in is {STANDARD_AUTHORIZER}"
        )
    name = "super.users"
    problems += [
        f"{_origin(config, name)}: {name}: {user!r} is not a principal; write User:{user}, and a semicolon between two"
        for user in sorted(super_users(config.text(name)))
        if ":" not in user
    ]
    name = "kraft.admin.principal"
    if ":" not in config.text(name):
        problems.append(f"{_origin(config, name)}: {name} must be a principal, as User:http-admin")
    return problems


def _check_admin(config: NodeConfig) -> list[str]:
    """Check that the HTTP admin requires a login, over TLS."""
    if config.admin_address is None:
        return []
    is_here = is_loopback(config.admin_address.host)
    match config.text(AUTHENTICATION):
        case "none":
            return [] if is_here else _check_open_admin(config)
        case "basic":
            return _check_fixed_principal(config) + ([] if is_here else _check_overheard(config))
        case _:
            return _check_fixed_principal(config) + _check_certificates(config)


def _check_open_admin(config: NodeConfig) -> list[str]:
    """Reject an HTTP admin without logins that other machines can reach, if a listener of the node is secured. It is
    permitted by kraft.admin.remote.without.login."""
    protocols = config.security_protocols
    secured = [endpoint.name for endpoint in config.listeners if protocols.get(endpoint.name) in _SECURED]
    if not secured or config.flag("kraft.admin.remote.without.login"):
        return []
    name = "kraft.admin.listener"
    return [
        f"{_origin(config, name)}: {name} {config.admin_address} would let whoever reaches it administer the cluster "
        f"without a login, while the listener {secured[0]} is secured ({protocols[secured[0]]}). "
        f"Set {AUTHENTICATION}, listen on 127.0.0.1, or set kraft.admin.remote.without.login=true if the address is "
        "protected by other means"
    ]


def _check_overheard(config: NodeConfig) -> list[str]:
    if config.admin_is_encrypted or config.flag("kraft.admin.basic.without.tls"):
        return []
    name = "kraft.admin.listener"
    return [
        f"{_origin(config, name)}: {name} {config.admin_address} would take passwords over plain HTTP. Set "
        "kraft.admin.ssl.keystore.location, listen on 127.0.0.1, or set kraft.admin.basic.without.tls=true if they "
        "are encrypted by other means"
    ]


def _check_certificates(config: NodeConfig) -> list[str]:
    name = "kraft.admin.ssl.client.auth"
    if config.text(name) != "none":
        return []
    return [f"{_origin(config, AUTHENTICATION)}: {AUTHENTICATION}=mtls needs {name}=required (or requested)"]


def _check_fixed_principal(config: NodeConfig) -> list[str]:
    name = "kraft.admin.principal"
    if name not in config.settings:
        return []
    return [
        f"{_origin(config, name)}: {name} has no effect with {AUTHENTICATION}={config.text(AUTHENTICATION)}: each "
        "client asks as itself. Remove one of them"
    ]


def is_loopback(host: str) -> bool:
    """Whether the address, as far as its text shows, is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_choices(config: NodeConfig) -> list[str]:
    problems = []
    selector = config.optional_text("replica.selector.class")
    if selector is not None and selector not in _REPLICA_SELECTORS:
        origin = _origin(config, "replica.selector.class")
        problems.append(
            f"{origin}: replica.selector.class {selector} cannot be loaded; built in are "
            f"{' and '.join(_REPLICA_SELECTORS)}"
        )
    problems += _check_authorizer(config)
    problems += [
        f"{_origin(config, name)}: {name}: {assignor} cannot be loaded; built in are {' and '.join(built_in)}"
        for name, built_in in _ASSIGNORS.items()
        for assignor in config.texts(name)
        if assignor not in built_in
    ]
    name = "group.coordinator.rebalance.protocols"
    if "classic" not in config.texts(name):
        problems.append(f"{_origin(config, name)}: {name} must include classic, which is always served")
    problems += [
        f"{_origin(config, name)}: {name} must be 0 to 4"
        for name in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec")
        if config.integer(name) not in _CODECS
    ]
    wrong = host_counts(config.text(PER_IP_OVERRIDES))[1]
    problems += [
        f"{_origin(config, PER_IP_OVERRIDES)}: {PER_IP_OVERRIDES}: {entry!r} is not host:count" for entry in wrong
    ]
    return problems
