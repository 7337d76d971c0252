"""Broker keys. Streams groups (KIP-1071)."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, CLUSTER_WIDE, INT, MEDIUM, READ_ONLY
from kraft.common.config.validators import at_least

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("group.streams.session.timeout.ms", INT, "45000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "After so long without a heartbeat a member of a streams group is removed."),
    key("group.streams.min.session.timeout.ms", INT, "45000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "The shortest session timeout that a streams group may be configured with."),
    key("group.streams.max.session.timeout.ms", INT, "60000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "The longest session timeout that a streams group may be configured with."),
    key("group.streams.heartbeat.interval.ms", INT, "5000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "How often members of a streams group shall send heartbeats."),
    key("group.streams.min.heartbeat.interval.ms", INT, "5000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "The shortest heartbeat interval that a streams group may be configured with."),
    key("group.streams.max.heartbeat.interval.ms", INT, "15000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "The longest heartbeat interval that a streams group may be configured with."),
    key("group.streams.assignment.interval.ms", INT, "1000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(0),
        "The shortest time between two computed assignments of one streams group."),
    key("group.streams.min.assignment.interval.ms", INT, "0", MEDIUM, READ_ONLY, ACCEPTED, at_least(0),
        "The shortest assignment interval that a streams group may be configured with."),
    key("group.streams.max.assignment.interval.ms", INT, "15000", MEDIUM, READ_ONLY, ACCEPTED, at_least(0),
        "The longest assignment interval that a streams group may be configured with."),
    key("group.streams.initial.rebalance.delay.ms", INT, "3000", MEDIUM, READ_ONLY, ACCEPTED, at_least(0),
        "How long the first assignment of an empty streams group waits for more members."),
    key("group.streams.max.size", INT, "2147483647", MEDIUM, READ_ONLY, ACCEPTED, at_least(1), "How many members one streams group may have."),
    key("group.streams.num.standby.replicas", INT, "0", MEDIUM, READ_ONLY, ACCEPTED, at_least(0), "How many standby copies of each task are kept."),
    key("group.streams.max.standby.replicas", INT, "2", MEDIUM, READ_ONLY, ACCEPTED, at_least(0),
        "The most standby copies that a streams group may be configured with."),
)
