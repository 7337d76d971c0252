"""Topic configurations of a copy: which ones it inherits from its source, and which ones delete records that the source
keeps. Pure.

A copy inherits settings about its records: what is deleted and when, what is compacted, how large a record may be. It
does not inherit settings that belong to a cluster, as with MirrorMaker 2: the minimum of in-sync replicas, throttled
replicas, unclean leader election, tiered storage, file sizes. It also does not inherit settings that would change or
reject timestamps, because the records already have theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

LEFT_BEHIND = (
    "*.replication.throttled.replicas",
    "min.insync.replicas",
    "unclean.*",
    "message.timestamp.*",
    "remote.*",
    "local.retention.*",
    "preallocate",
)
KEEPS_TIMESTAMPS = {"message.timestamp.type": "CreateTime"}
"""Set on every copy. If the target cluster's default were LogAppendTime, its brokers would replace the timestamps."""
FOR_EVER = -1
LIMITS = {"retention.ms": "ms", "retention.bytes": "bytes a partition"}


class TopicConfig(NamedTuple):
    """One configuration of a topic. `explicit`: set on the topic itself. `value` is None if the broker does not reveal
    it."""

    value: str | None
    explicit: bool


Configs = dict[str, TopicConfig]


def carried(source: Configs) -> dict[str, str]:
    """Return the configurations with which a copy is created."""
    return {
        name: config.value
        for name, config in sorted(source.items())
        if config.explicit
        and config.value is not None
        and not any(fnmatchcase(name, pattern) for pattern in LEFT_BEHIND)
    } | KEEPS_TIMESTAMPS


def shown(configs: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in configs.items())


def policies(configs: Configs) -> frozenset[str]:
    """The policies of `cleanup.policy`; Kafka's default where the key is absent."""
    config = configs.get("cleanup.policy")
    given = "delete" if config is None or config.value is None else config.value
    return frozenset(each.strip() for each in given.split(",") if each.strip())


def is_compacted(configs: Configs) -> bool:
    return "compact" in policies(configs)


def limit(configs: Configs, name: str) -> int | None:
    """Return the retention limit of this name: -1 means unlimited, None unknown."""
    if "delete" not in policies(configs):
        return FOR_EVER
    config = configs.get(name)
    return None if config is None or config.value is None else int(config.value)


def dangers(source: Configs, target: Configs) -> list[str]:
    """Describe the target's configurations that would delete records which the source keeps. Kraft does not change
    them."""
    told = []
    for name, unit in LIMITS.items():
        ours, theirs = limit(source, name), limit(target, name)
        if ours is not None and theirs is not None and theirs >= 0 and (ours < 0 or theirs < ours):
            kept = "all" if ours < 0 else f"{ours} {unit}"
            told.append(
                f"keeps {theirs} {unit} ({name}), and the source {kept}: the rest is deleted there, however "
                "lately it was copied"
            )
    if is_compacted(target) and not is_compacted(source):
        told.append("is compacted (cleanup.policy), and the source is not: only the last value of each key stays there")
    stamp = target.get("message.timestamp.type")
    if stamp is not None and stamp.value == "LogAppendTime":
        told.append(
            "gives records timestamps of its own (message.timestamp.type=LogAppendTime): those of the source "
            "do not stay"
        )
    return told
