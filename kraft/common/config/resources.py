"""The table of keys of each resource type, and the broker keys that give topic keys their defaults."""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.common.config.definition import ConfigDef, ConfigKey, Status
from kraft.common.config.keys import (
    admin_keys,
    cleaner_keys,
    client_metrics_keys,
    group_level_keys,
    groups_keys,
    identity_keys,
    kraft_keys,
    logs_keys,
    network_keys,
    offsets_keys,
    quorum_keys,
    quotas_keys,
    replication_keys,
    sasl_keys,
    security_keys,
    share_keys,
    ssl_keys,
    streams_keys,
    tiered_keys,
    topic_level_keys,
    topics_keys,
    transactions_keys,
)
from kraft.common.config.resource_type import ResourceType

RESOURCE_TYPE_NAMES: Final = {
    0: "UNKNOWN",
    2: "TOPIC",
    4: "BROKER",
    8: "BROKER_LOGGER",
    16: "CLIENT_METRICS",
    32: "GROUP",
}

BROKER_KEYS: Final = ConfigDef(
    identity_keys.KEYS,
    quorum_keys.KEYS,
    logs_keys.KEYS,
    cleaner_keys.KEYS,
    topics_keys.KEYS,
    replication_keys.KEYS,
    network_keys.KEYS,
    offsets_keys.KEYS,
    groups_keys.KEYS,
    share_keys.KEYS,
    streams_keys.KEYS,
    transactions_keys.KEYS,
    quotas_keys.KEYS,
    security_keys.KEYS,
    ssl_keys.KEYS,
    sasl_keys.KEYS,
    tiered_keys.KEYS,
    kraft_keys.KEYS,
    admin_keys.KEYS,
)
TOPIC_KEYS: Final = ConfigDef(topic_level_keys.KEYS)
GROUP_KEYS: Final = ConfigDef(group_level_keys.KEYS)
CLIENT_METRICS_KEYS: Final = ConfigDef(client_metrics_keys.KEYS)

TLS_KEYS: Final = tuple(row.name for row in ssl_keys.KEYS if row.status == Status.ENFORCED)
TLS_KEYS_WITHOUT_EFFECT: Final = tuple(row.name for row in ssl_keys.KEYS if row.status == Status.ACCEPTED)
ADMIN_TLS_KEYS: Final = tuple(row.name for row in admin_keys.KEYS)
SASL_KEYS: Final = (
    *(row.name for row in sasl_keys.KEYS if row.status == Status.ENFORCED),
    "connections.max.reauth.ms",
)
MECHANISM_KEYS: Final = (
    "sasl.jaas.config",
    "sasl.server.callback.handler.class",
    *(name for name in SASL_KEYS if name.startswith(("sasl.login.", "sasl.oauthbearer."))),
)
"""Keys that may be set for one mechanism of one listener, as `listener.name.<listener>.<mechanism>.<key>`."""
LISTENER_KEYS: Final = ("max.connections", "max.connection.creation.rate", *TLS_KEYS, *SASL_KEYS)
"""Broker keys that may be set for one listener, as `listener.name.<listener>.<key>`. The listener's name is in lower
case there."""


def listener_key(listener: str, name: str) -> str:
    return f"listener.name.{listener.lower()}.{name}"


def broker_key(name: str) -> ConfigKey | None:
    """The row of a broker key. A single listener's key has the row of its base, under its own name."""
    row, base = BROKER_KEYS.get(name), listener_base(name)
    if row is None and base is not None:
        row = BROKER_KEYS[base]
        row = ConfigKey(
            name,
            row.type,
            row.default_text,
            row.importance,
            row.update_mode,
            row.status,
            row.validator,
            row.documentation,
        )
    return row


def is_secret(name: str) -> bool:
    """Whether a broker key's value must not be shown. An unknown key may be a misspelt secret."""
    row = broker_key(name)
    return row is None or row.sensitive


def listener_base(name: str) -> str | None:
    """The key that `name` sets for a single listener."""
    if not name.startswith("listener.name."):
        return None
    listener, _, base = name.removeprefix("listener.name.").partition(".")
    of_mechanism = base.partition(".")[2]
    if listener and of_mechanism in MECHANISM_KEYS:
        return of_mechanism
    return base if listener and base in LISTENER_KEYS else None


LOG_LEVELS: Final = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
"""Levels that a BROKER_LOGGER resource may set."""

_TABLES: Final = {
    ResourceType.TOPIC: TOPIC_KEYS,
    ResourceType.BROKER: BROKER_KEYS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS,
    ResourceType.GROUP: GROUP_KEYS,
}


def keys_of(resource_type: int) -> ConfigDef:
    """The table of a resource type. BROKER_LOGGER has no fixed keys. Raises KeyError for a type without a table."""
    return _TABLES[resource_type]


class Synonym(NamedTuple):
    """A broker key that gives a topic key its default: its value times `factor` is the topic key's."""

    name: str
    factor: int = 1


_MS_PER_MINUTE: Final = 60_000
_MS_PER_HOUR: Final = 3_600_000

TOPIC_SYNONYMS: Final[dict[str, tuple[Synonym, ...]]] = {
    "cleanup.policy": (Synonym("log.cleanup.policy"),),
    "compression.gzip.level": (Synonym("compression.gzip.level"),),
    "compression.lz4.level": (Synonym("compression.lz4.level"),),
    "compression.type": (Synonym("compression.type"),),
    "compression.zstd.level": (Synonym("compression.zstd.level"),),
    "delete.retention.ms": (Synonym("log.cleaner.delete.retention.ms"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "index.interval.bytes": (Synonym("log.index.interval.bytes"),),
    "local.retention.bytes": (Synonym("log.local.retention.bytes"),),
    "local.retention.ms": (Synonym("log.local.retention.ms"),),
    "max.compaction.lag.ms": (Synonym("log.cleaner.max.compaction.lag.ms"),),
    "max.decompressed.message.bytes": (Synonym("max.decompressed.message.bytes"),),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "message.timestamp.after.max.ms": (Synonym("log.message.timestamp.after.max.ms"),),
    "message.timestamp.before.max.ms": (Synonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.type": (Synonym("log.message.timestamp.type"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    "min.compaction.lag.ms": (Synonym("log.cleaner.min.compaction.lag.ms"),),
    "min.insync.replicas": (Synonym("min.insync.replicas"),),
    "preallocate": (Synonym("log.preallocate"),),
    "remote.copy.lag.bytes": (Synonym("log.remote.copy.lag.bytes"),),
    "remote.copy.lag.ms": (Synonym("log.remote.copy.lag.ms"),),
    "retention.bytes": (Synonym("log.retention.bytes"),),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MS_PER_MINUTE),
        Synonym("log.retention.hours", _MS_PER_HOUR),
    ),
    "segment.bytes": (Synonym("log.segment.bytes"),),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _MS_PER_HOUR)),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _MS_PER_HOUR)),
    "kraft.unclean.recovery.strategy": (Synonym("kraft.unclean.recovery.strategy"),),
    "unclean.leader.election.enable": (Synonym("unclean.leader.election.enable"),),
}
"""Kafka's ServerTopicConfigSynonyms: the first configured synonym applies."""

_BROKER_FAMILIES: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)

_FAMILY_OF: Final = {name: family for family in _BROKER_FAMILIES for name in family}


def broker_family(name: str) -> tuple[str, ...]:
    """All broker keys with the same meaning as `name`, highest precedence first."""
    return _FAMILY_OF.get(name, (name,))
