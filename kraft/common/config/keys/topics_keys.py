"""Broker keys. Topic creation and leader election."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    ENFORCED,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
    REFUSED,
    STRING,
)
from kraft.common.config.validators import ANYTHING, at_least, one_of
from kraft.common.internal_topics import GROWTH_ENABLE
from kraft.common.recovery_strategy import RECOVERY_STRATEGIES

KEYS: Final[tuple[ConfigKey, ...]] = (
    key(
        "auto.create.topics.enable",
        BOOLEAN,
        "true",
        HIGH,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "Whether asking for the metadata of a missing topic creates it.",
    ),
    key("delete.topic.enable", BOOLEAN, "true", HIGH, READ_ONLY, ENFORCED, ANYTHING, "Whether topics may be deleted."),
    key(
        "num.partitions",
        INT,
        "1",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "Partitions of a topic that is created without saying how many.",
    ),
    key(
        "default.replication.factor",
        INT,
        "1",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "Replicas of a topic that is created without saying how many.",
    ),
    key(
        "min.insync.replicas",
        INT,
        "1",
        HIGH,
        CLUSTER_WIDE,
        ENFORCED,
        at_least(1),
        "How many replicas must be in sync before a write with acks=all is taken.",
    ),
    key(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        HIGH,
        CLUSTER_WIDE,
        ENFORCED,
        ANYTHING,
        (
            "Whether a replica that was not in sync may become leader when no other is left. Acknowledged records "
            "may then be lost."
        ),
    ),
    key(
        "unclean.leader.election.interval.ms",
        LONG,
        "300000",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "How often the controller looks for partitions that may get such a leader.",
        internal=True,
    ),
    key(
        "kraft.unclean.recovery.strategy",
        STRING,
        "none",
        HIGH,
        CLUSTER_WIDE,
        ENFORCED,
        one_of(*RECOVERY_STRATEGIES),
        "How a leader is elected when no in-sync or eligible replica is left. none: unclean.leader.election.enable "
        "decides; if it is false, the replica whose log contains those of all remaining members, once each member has"
        " answered or its wait is over. balanced: the same, without waiting for members whose process is dead. "
        "aggressive: the best log of those that answer immediately. balanced and aggressive replace "
        "unclean.leader.election.enable. Acknowledged records may be lost.",
    ),
    key(
        "kraft.unclean.recovery.timeout.ms",
        LONG,
        "300000",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        at_least(0),
        "How long a recovery (kraft.unclean.recovery.strategy none or balanced) waits for members that do not answer.",
    ),
    key(
        GROWTH_ENABLE,
        BOOLEAN,
        "false",
        MEDIUM,
        CLUSTER_WIDE,
        ENFORCED,
        ANYTHING,
        "Allows partitions to be added to __consumer_offsets, __transaction_state, __share_group_state and "
        "__remote_log_metadata. The number of partitions places their keys: after a change most groups lose their "
        "committed offsets, and most open transactions stay open forever. Kafka allows it without a warning.",
    ),
    key(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        "true",
        HIGH,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "Whether the controller gives leadership back to preferred replicas from time to time.",
    ),
    key(
        "leader.imbalance.check.interval.seconds",
        LONG,
        "300",
        HIGH,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "How often it looks whether leadership should be given back.",
    ),
    key(
        "create.topic.policy.class.name",
        CLASS,
        None,
        LOW,
        READ_ONLY,
        REFUSED,
        ANYTHING,
        (
            "A Java class that may forbid creating a topic. It cannot be loaded here, and passing over a policy "
            "is not safe."
        ),
    ),
    key(
        "alter.config.policy.class.name",
        CLASS,
        None,
        LOW,
        READ_ONLY,
        REFUSED,
        ANYTHING,
        (
            "A Java class that may forbid changing a configuration. It cannot be loaded here, and passing over a "
            "policy is not safe."
        ),
    ),
)
