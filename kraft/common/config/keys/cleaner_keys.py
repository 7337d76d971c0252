"""Broker keys. The log cleaner, which compacts."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, BOOLEAN, CLUSTER_WIDE, DOUBLE, ENFORCED, INT, LONG, MEDIUM, READ_ONLY
from kraft.common.config.validators import ANYTHING, at_least, between

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("log.cleaner.enable", BOOLEAN, "true", MEDIUM, READ_ONLY, ENFORCED, ANYTHING,
        "Whether compacted topics are compacted. The topic of committed offsets needs it."),
    key("log.cleaner.threads", INT, "1", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(0),
        "Threads that compact. Here one task compacts in slices that leave room for clients."),
    key("log.cleaner.backoff.ms", LONG, "15000", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0), "How long the cleaner rests when there is nothing to clean."),
    key("log.cleaner.dedupe.buffer.size", LONG, "134217728", MEDIUM, CLUSTER_WIDE, ENFORCED, ANYTHING,
        "Memory for the map of keys with which one cleaning works."),
    key("log.cleaner.io.buffer.size", INT, "524288", MEDIUM, CLUSTER_WIDE, ACCEPTED, at_least(0), "Memory for reading and writing during a cleaning."),
    key("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", MEDIUM, CLUSTER_WIDE, ACCEPTED, ANYTHING,
        "How full the map of keys may become before a cleaning stops at that offset."),
    key("log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308", MEDIUM, CLUSTER_WIDE, ACCEPTED, ANYTHING,
        "The most bytes a second that the cleaner reads and writes together."),
    key("log.cleaner.min.cleanable.ratio", DOUBLE, "0.5", MEDIUM, CLUSTER_WIDE, ENFORCED, between(0, 1),
        "How much of a log must be uncleaned before it is cleaned, as a share of its bytes."),
    key("log.cleaner.min.compaction.lag.ms", LONG, "0", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0), "A record stays uncompacted for at least this time."),
    key("log.cleaner.max.compaction.lag.ms", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(1),
        "A record stays uncompacted for at most this time, whatever the ratio says."),
    key("log.cleaner.delete.retention.ms", LONG, "86400000", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "How long the tombstone of a deleted key stays readable."),
)
