"""Broker keys. How replicas follow their leader."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, BOOLEAN, CLUSTER_WIDE, ENFORCED, HIGH, INT, LONG, MEDIUM, READ_ONLY, REFUSED, STRING
from kraft.common.config.validators import ANYTHING, at_least

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("replica.lag.time.max.ms", LONG, "30000", HIGH, READ_ONLY, ENFORCED, ANYTHING,
        "A follower that has not caught up for this long leaves the set of in-sync replicas."),
    key("replica.fetch.wait.max.ms", INT, "500", HIGH, READ_ONLY, ENFORCED, ANYTHING, "How long a follower's fetch may wait at the leader for new records."),
    key("replica.fetch.min.bytes", INT, "1", HIGH, READ_ONLY, ENFORCED, ANYTHING, "How many bytes a follower's fetch waits for."),
    key("replica.fetch.max.bytes", INT, "1048576", MEDIUM, READ_ONLY, ENFORCED, at_least(0),
        "How many bytes a follower asks of one partition at a time; a larger first batch still comes whole."),
    key("replica.fetch.response.max.bytes", INT, "10485760", MEDIUM, READ_ONLY, ENFORCED, at_least(0),
        "How many bytes a follower asks for in one fetch; a larger first batch still comes whole."),
    key("replica.fetch.backoff.ms", INT, "1000", MEDIUM, READ_ONLY, ENFORCED, at_least(0), "How long a follower rests after a failed fetch."),
    key("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", HIGH, READ_ONLY, ENFORCED, ANYTHING, "How often high watermarks are written down."),
    key("replica.socket.timeout.ms", INT, "30000", HIGH, READ_ONLY, ENFORCED, ANYTHING, "How long a follower waits for an answer of its leader."),
    key("replica.socket.receive.buffer.bytes", INT, "65536", HIGH, READ_ONLY, ACCEPTED, ANYTHING,
        "The socket receive buffer of followers. The kernel sizes it here."),
    key("replica.selector.class", STRING, None, MEDIUM, READ_ONLY, ENFORCED, ANYTHING,
        "How a consumer is told from which replica to read. The rack-aware and the leader selector are built in; other classes cannot be loaded."),
    key("num.replica.fetchers", INT, "1", HIGH, CLUSTER_WIDE, ACCEPTED, at_least(1), "How many connections a follower opens to each leader."),
    key("leader.replication.throttled.rate", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "The most bytes a second that this broker sends to followers of throttled replicas that are not in sync."),
    key("follower.replication.throttled.rate", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "The most bytes a second that this broker fetches for throttled replicas that are not in sync."),
    key("replica.alter.log.dirs.io.max.bytes.per.second", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "The most bytes a second for moving replicas between directories."),
    key("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false", MEDIUM, CLUSTER_WIDE, REFUSED, ANYTHING,
        "Lets a new follower start at the last tiered offset. Tiered storage is not there."),
)
