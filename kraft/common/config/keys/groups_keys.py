"""Broker keys. Consumer groups of both protocols."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, CLUSTER_WIDE, ENFORCED, HIGH, INT, LIST, MEDIUM, READ_ONLY, STRING
from kraft.common.config.validators import ANYTHING, DISTINCT_NON_EMPTY, at_least, list_of, one_of_any_case

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("group.coordinator.rebalance.protocols", LIST, "classic,consumer,streams", MEDIUM, READ_ONLY, ACCEPTED,
        list_of("consumer", "classic", "share", "streams", may_be_empty=False),
        "Which group protocols are served."),
    key("group.coordinator.threads", INT, "4", HIGH, READ_ONLY, ACCEPTED, at_least(1),
        "Threads of the group coordinator. Its shards are tasks of the node's event loop here."),
    key("group.coordinator.background.threads", INT, "2", HIGH, READ_ONLY, ACCEPTED, at_least(1), "Threads that compute assignments in the background."),
    key("group.coordinator.append.linger.ms", INT, "-1", MEDIUM, READ_ONLY, ACCEPTED, at_least(-1),
        "How long the coordinator may collect records before it writes them; -1 writes what has gathered as soon as the loop comes round."),
    key("group.coordinator.cached.buffer.max.bytes", INT, "1048588", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(524_288),
        "The largest write buffer that is kept for reuse."),
    key("group.initial.rebalance.delay.ms", INT, "3000", MEDIUM, READ_ONLY, ENFORCED, ANYTHING,
        "How long the first rebalance of an empty group waits for more members."),
    key("group.min.session.timeout.ms", INT, "6000", MEDIUM, READ_ONLY, ENFORCED, ANYTHING,
        "The shortest session timeout that a classic member may ask for."),
    key("group.max.session.timeout.ms", INT, "1800000", MEDIUM, READ_ONLY, ENFORCED, ANYTHING,
        "The longest session timeout that a classic member may ask for."),
    key("group.max.size", INT, "2147483647", MEDIUM, READ_ONLY, ENFORCED, at_least(1), "How many members one classic group may have."),
    key("group.consumer.session.timeout.ms", INT, "45000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "After so long without a heartbeat a member of a consumer group is removed."),
    key("group.consumer.min.session.timeout.ms", INT, "45000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "The shortest session timeout that a consumer group may be configured with."),
    key("group.consumer.max.session.timeout.ms", INT, "60000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "The longest session timeout that a consumer group may be configured with."),
    key("group.consumer.heartbeat.interval.ms", INT, "5000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "How often members of a consumer group shall send heartbeats."),
    key("group.consumer.min.heartbeat.interval.ms", INT, "5000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "The shortest heartbeat interval that a consumer group may be configured with."),
    key("group.consumer.max.heartbeat.interval.ms", INT, "15000", MEDIUM, READ_ONLY, ACCEPTED, at_least(1),
        "The longest heartbeat interval that a consumer group may be configured with."),
    key("group.consumer.assignment.interval.ms", INT, "1000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(0),
        "The shortest time between two computed assignments of one consumer group."),
    key("group.consumer.min.assignment.interval.ms", INT, "0", MEDIUM, READ_ONLY, ACCEPTED, at_least(0),
        "The shortest assignment interval that a consumer group may be configured with."),
    key("group.consumer.max.assignment.interval.ms", INT, "15000", MEDIUM, READ_ONLY, ACCEPTED, at_least(0),
        "The longest assignment interval that a consumer group may be configured with."),
    key("group.consumer.max.size", INT, "2147483647", MEDIUM, READ_ONLY, ACCEPTED, at_least(1), "How many members one consumer group may have."),
    key("group.consumer.assignors", LIST, "uniform,range", MEDIUM, READ_ONLY, ACCEPTED, DISTINCT_NON_EMPTY,
        "The server-side assignors on offer; the first is the default."),
    key("group.consumer.migration.policy", STRING, "bidirectional", MEDIUM, READ_ONLY, ACCEPTED,
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        "Whether a group may change between the classic and the consumer protocol while it lives, and in which direction."),
    key("group.consumer.regex.refresh.interval.ms", INT, "600000", MEDIUM, READ_ONLY, ACCEPTED, at_least(10_000),
        "How often regular expressions of subscriptions are matched against the topics again.", internal=True),
)
