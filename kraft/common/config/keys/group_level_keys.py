"""Keys of a group (resource type GROUP)."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, BOOLEAN, CLUSTER_WIDE, INT, MEDIUM, STRING
from kraft.common.config.validators import ANYTHING, OFFSET_RESET, at_least, one_of

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("consumer.assignment.interval.ms", INT, "1000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(0),
        "The shortest time between two computed assignments of this group."),
    key("consumer.heartbeat.interval.ms", INT, "5000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(1), "How often the members shall send heartbeats."),
    key("consumer.session.timeout.ms", INT, "45000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(1), "After so long without a heartbeat a member is removed."),
    key("share.assignment.interval.ms", INT, "1000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(0),
        "The shortest time between two computed assignments of this share group."),
    key("share.auto.offset.reset", STRING, "latest", MEDIUM, CLUSTER_WIDE, ACCEPTED, OFFSET_RESET,
        "Where the group starts on a partition it never read: earliest, latest, or so long ago."),
    key("share.delivery.count.limit", INT, "5", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(2),
        "How often a record is delivered before it counts as undeliverable."),
    key("share.heartbeat.interval.ms", INT, "5000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(1),
        "How often the members of the share group shall send heartbeats."),
    key("share.isolation.level", STRING, "read_uncommitted", MEDIUM, CLUSTER_WIDE, ACCEPTED, one_of("read_committed", "read_uncommitted"),
        "Whether records of unfinished transactions are delivered."),
    key("share.partition.max.record.locks", INT, "2000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(100),
        "How many records of a partition may be in delivery at a time."),
    key("share.record.lock.duration.ms", INT, "30000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(1_000),
        "How long a delivered record is kept for the consumer that got it."),
    key("share.renew.acknowledge.enable", BOOLEAN, "true", MEDIUM, CLUSTER_WIDE, ACCEPTED, ANYTHING,
        "Whether a consumer may ask for more time for a record."),
    key("share.session.timeout.ms", INT, "45000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(1),
        "After so long without a heartbeat a member of the share group is removed."),
    key("streams.assignment.interval.ms", INT, "1000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(0),
        "The shortest time between two computed assignments of this streams group."),
    key("streams.heartbeat.interval.ms", INT, "5000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(1),
        "How often the members of the streams group shall send heartbeats."),
    key("streams.initial.rebalance.delay.ms", INT, "3000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(0),
        "How long the first assignment of an empty streams group waits for more members."),
    key("streams.num.standby.replicas", INT, "0", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(0), "How many standby copies of each task are kept."),
    key("streams.session.timeout.ms", INT, "45000", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(1),
        "After so long without a heartbeat a member of the streams group is removed."),
)
