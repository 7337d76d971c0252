"""Broker keys. Tiered storage. Not there, so every key is refused unless it has its default."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import BOOLEAN, CLUSTER_WIDE, DOUBLE, INT, LONG, LOW, MEDIUM, READ_ONLY, REFUSED, STRING
from kraft.common.config.validators import ANYTHING, NON_EMPTY, at_least, between

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("remote.log.storage.system.enable", BOOLEAN, "false", MEDIUM, READ_ONLY, REFUSED, ANYTHING, "Whether old segments may move to remote storage."),
    key("remote.log.storage.manager.class.name", STRING, None, MEDIUM, READ_ONLY, REFUSED, NON_EMPTY, "The class that stores segments remotely."),
    key("remote.log.storage.manager.class.path", STRING, None, MEDIUM, READ_ONLY, REFUSED, ANYTHING, "Where that class lies."),
    key("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", MEDIUM, READ_ONLY, REFUSED, NON_EMPTY, "The prefix of that class's own keys."),
    key("remote.log.metadata.manager.class.name", STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", MEDIUM, READ_ONLY, REFUSED,
        NON_EMPTY,
        "The class that remembers what lies remotely."),
    key("remote.log.metadata.manager.class.path", STRING, None, MEDIUM, READ_ONLY, REFUSED, ANYTHING, "Where that class lies."),
    key("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", MEDIUM, READ_ONLY, REFUSED, NON_EMPTY, "The prefix of that class's own keys."),
    key("remote.log.metadata.manager.listener.name", STRING, None, MEDIUM, READ_ONLY, REFUSED, NON_EMPTY,
        "The listener over which that class talks to brokers."),
    key("remote.log.metadata.custom.metadata.max.bytes", INT, "128", LOW, READ_ONLY, REFUSED, at_least(0),
        "The most bytes that the storing class may attach to a segment."),
    key("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", LOW, CLUSTER_WIDE, REFUSED, at_least(1),
        "Disk space for indexes of remote segments."),
    key("remote.log.index.file.cache.ttl.ms", LONG, "900000", LOW, READ_ONLY, REFUSED, at_least(-1),
        "How long an unused index stays in that cache.", internal=True),
    key("remote.log.manager.thread.pool.size", INT, "2", MEDIUM, READ_ONLY, REFUSED, at_least(1), "Threads that plan the movement of segments."),
    key("remote.log.manager.copier.thread.pool.size", INT, "10", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(1), "Threads that copy segments away."),
    key("remote.log.manager.expiration.thread.pool.size", INT, "10", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(1),
        "Threads that remove expired remote segments."),
    key("remote.log.manager.follower.thread.pool.size", INT, "2", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(1), "Threads that follow what leaders moved."),
    key("remote.log.manager.copy.max.bytes.per.second", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(1),
        "The most bytes a second for copying away."),
    key("remote.log.manager.copy.quota.window.num", INT, "11", MEDIUM, READ_ONLY, REFUSED, at_least(1), "How many samples that limit keeps."),
    key("remote.log.manager.copy.quota.window.size.seconds", INT, "1", MEDIUM, READ_ONLY, REFUSED, at_least(1), "How long one such sample is."),
    key("remote.log.manager.fetch.max.bytes.per.second", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(1),
        "The most bytes a second for reading back."),
    key("remote.log.manager.fetch.quota.window.num", INT, "11", MEDIUM, READ_ONLY, REFUSED, at_least(1), "How many samples that limit keeps."),
    key("remote.log.manager.fetch.quota.window.size.seconds", INT, "1", MEDIUM, READ_ONLY, REFUSED, at_least(1), "How long one such sample is."),
    key("remote.log.manager.task.interval.ms", LONG, "30000", LOW, READ_ONLY, REFUSED, at_least(1), "How often the movement of segments is planned."),
    key("remote.log.manager.task.retry.backoff.ms", LONG, "500", LOW, READ_ONLY, REFUSED, at_least(1), "First pause after a failed movement.", internal=True),
    key("remote.log.manager.task.retry.backoff.max.ms", LONG, "30000", LOW, READ_ONLY, REFUSED, at_least(1), "The longest such pause.", internal=True),
    key("remote.log.manager.task.retry.jitter", DOUBLE, "0.2", LOW, READ_ONLY, REFUSED, between(0, 0.5),
        "How much that pause varies at random.", internal=True),
    key("remote.log.reader.threads", INT, "10", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(1), "Threads that read remote segments."),
    key("remote.log.reader.max.pending.tasks", INT, "100", MEDIUM, READ_ONLY, REFUSED, at_least(1), "How many remote reads may wait."),
    key("remote.fetch.max.wait.ms", INT, "500", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(1), "How long a fetch may wait for remote data."),
    key("remote.list.offsets.request.timeout.ms", LONG, "30000", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(1),
        "How long looking up an offset in remote data may take."),
)
