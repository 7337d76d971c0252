"""Configurations of a topic: what a copy of the topic takes over, and what of a copy deletes records that its source
keeps. Pure.

What was set for the source goes with its records: what is deleted and when, what is compacted, how large a record
may be. What belongs to the cluster that it is in stays behind, as with MirrorMaker 2: how many replicas must be in
sync, which are throttled, whether one that lacks records may lead, where tiers are, how files grow. So does what would
change or refuse timestamps, which were given long ago.
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
"""A copy has it set, whatever the defaults of its cluster: under LogAppendTime the broker would replace the
timestamps."""
FOR_EVER = -1
LIMITS = {"retention.ms": "ms", "retention.bytes": "bytes a partition"}


class TopicConfig(NamedTuple):
    """`explicit`: set for the topic itself. `value` is None where the broker does not tell it."""

    value: str | None
    explicit: bool


Configs = dict[str, TopicConfig]


def carried(source: Configs) -> dict[str, str]:
    """What a copy is created with."""
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
    """How much of the log is kept: -1 is all. None where it is not told."""
    if "delete" not in policies(configs):
        return FOR_EVER
    config = configs.get(name)
    return None if config is None or config.value is None else int(config.value)


def dangers(source: Configs, target: Configs) -> list[str]:
    """What the target's configurations, which nobody changes, do to records that the source keeps."""
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
