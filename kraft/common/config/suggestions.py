"""Suggestions for unknown keys."""

from __future__ import annotations

from typing import Final

from kraft.common.config.resources import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, TOPIC_SYNONYMS

PLUGIN_PREFIXES: Final = ("rsm.config.", "rlmm.config.", "confluent.", "metrics.context.")
"""Keys of plug-ins that only a JVM can load."""

_REMOVED: Final = {
    "inter.broker.protocol.version": "the metadata version is a feature of the cluster now",
    "log.message.format.version": "there is one message format now",
    "log.message.downconversion.enable": "old message formats are not converted any more",
    "log.message.timestamp.difference.max.ms": (
        "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "control.plane.listener.name": "controllers have listeners of their own, see controller.listener.names",
    "broker.id.generation.enable": "every node is given its node.id",
    "reserved.broker.max.id": "every node is given its node.id",
    "leader.imbalance.per.broker.percentage": "leadership is given back partition by partition",
    "controlled.shutdown.max.retries": "a broker waits for its controlled shutdown",
    "controlled.shutdown.retry.backoff.ms": "a broker waits for its controlled shutdown",
    "auto.include.jmx.reporter": "metric.reporters names the reporters",
    "group.share.max.groups": "the number of share groups has no limit of its own",
    "delegation.token.master.key": "it is called delegation.token.secret.key",
    "zookeeper.connect": (
        "a node of ZooKeeper's cluster cannot be replaced. Migrate the cluster to KRaft with Kafka 3.9, the bridge "
        "release, and remove the key"
    ),
    "zookeeper.metadata.migration.enable": "finish the migration to KRaft with Kafka 3.9, and remove the key",
    "offsets.commit.required.acks": "commits always wait for all in-sync replicas",
    "group.coordinator.new.enable": "there is one group coordinator",
    "eligible.leader.replicas.enable": "it is a feature of the cluster now",
}


_NEEDED: Final = ("delegation.token.master.key", "zookeeper.connect", "zookeeper.metadata.migration.enable")
"""Removed keys that must not be ignored: without them a node would not behave as the file intends."""
_REMOVED_PREFIXES: Final = ("zookeeper.", "password.encoder.")


def is_plugin_key(name: str) -> bool:
    return name.startswith(PLUGIN_PREFIXES)


def is_removed_without_effect(name: str) -> bool:
    """Whether Kafka 4 has removed the key, and a node that ignores it behaves as the file intends."""
    return name not in _NEEDED and (name in _REMOVED or name.startswith(_REMOVED_PREFIXES))


def explain_unknown(name: str) -> str:
    """A sentence to follow "unknown key NAME": the probably intended key, if it can be guessed."""
    if name in _REMOVED:
        return f"Kafka 4 removed it: {_REMOVED[name]}"
    if name.startswith(_REMOVED_PREFIXES):
        return "Kafka 4 removed it together with ZooKeeper"
    if name in TOPIC_KEYS:
        synonyms = TOPIC_SYNONYMS.get(name)
        return (
            f"it is a topic's key; the broker's default for it is {synonyms[0].name}"
            if synonyms
            else "it is a topic's key, set it on the topic"
        )
    if name in GROUP_KEYS:
        return "it is a group's key, set it on the group"
    close = close_names(name, BROKER_KEYS.names())
    return f"did you mean {' or '.join(close)}?" if close else "`kraft docs configuration` lists every key"


def close_names(name: str, names: list[str]) -> list[str]:
    """At most two of `names` that look like `name`."""
    import difflib  # A rare path that should not slow down every start.

    return difflib.get_close_matches(name.lower().replace("_", ".").replace("-", "."), names, n=2, cutoff=0.82)
