"""Broker keys. Connections, requests and their limits."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, CLUSTER_WIDE, ENFORCED, HIGH, INT, LONG, LOW, MEDIUM, READ_ONLY, REFUSED, STRING
from kraft.common.config.validators import ANYTHING, at_least

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("num.network.threads", INT, "3", HIGH, CLUSTER_WIDE, ACCEPTED, at_least(1),
        "Threads that read and write sockets. One event loop does it here, and more cores are used by more nodes."),
    key("num.io.threads", INT, "8", HIGH, CLUSTER_WIDE, ACCEPTED, at_least(1),
        "Threads that handle requests. One event loop does it here, and more cores are used by more nodes."),
    key("queued.max.requests", INT, "500", HIGH, READ_ONLY, ACCEPTED, at_least(1),
        "How many requests may be in work before the node stops reading from sockets."),
    key("queued.max.request.bytes", LONG, "-1", MEDIUM, READ_ONLY, ENFORCED, ANYTHING,
        "How many bytes of requests may be in work before the node stops reading from sockets; -1 is without limit."),
    key("socket.request.max.bytes", INT, "104857600", HIGH, READ_ONLY, ENFORCED, at_least(1),
        "The largest request that is read; a larger one closes its connection."),
    key("socket.send.buffer.bytes", INT, "102400", HIGH, READ_ONLY, ACCEPTED, ANYTHING, "The send buffer of client sockets. The kernel sizes it here."),
    key("socket.receive.buffer.bytes", INT, "102400", HIGH, READ_ONLY, ACCEPTED, ANYTHING, "The receive buffer of client sockets. The kernel sizes it here."),
    key("socket.listen.backlog.size", INT, "50", MEDIUM, READ_ONLY, ENFORCED, at_least(1), "How many connections may wait to be accepted."),
    key("socket.connection.setup.timeout.ms", LONG, "10000", MEDIUM, READ_ONLY, ACCEPTED, ANYTHING, "How long connecting to another node may take at first."),
    key("socket.connection.setup.timeout.max.ms", LONG, "30000", MEDIUM, READ_ONLY, ACCEPTED, ANYTHING,
        "How long connecting to another node may take after repeated failures."),
    key("max.connections", INT, "2147483647", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "How many connections the listeners of a broker, or those of a controller, hold together; as listener.name.<listener>.max.connections, "
        "how many that one holds. One more waits until another ends, except on the listener between brokers, where the longest silent connection of another "
        "listener goes for it."),
    key("max.connections.per.ip", INT, "2147483647", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0), "How many connections one address may hold."),
    key("max.connections.per.ip.overrides", STRING, "", MEDIUM, CLUSTER_WIDE, ENFORCED, ANYTHING, "Other limits for single addresses, as host:count."),
    key("max.connection.creation.rate", INT, "2147483647", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(0), "How many new connections are taken a second."),
    key("connections.max.idle.ms", LONG, "600000", MEDIUM, READ_ONLY, ENFORCED, ANYTHING,
        "A connection without a request for so long is closed; a negative value keeps it open."),
    key("connections.max.reauth.ms", LONG, "0", MEDIUM, READ_ONLY, REFUSED, ANYTHING,
        "How long an authentication lasts before the client must repeat it. SASL is not there."),
    key("connection.failed.authentication.delay.ms", INT, "100", LOW, READ_ONLY, ACCEPTED, at_least(0),
        "How long a failed authentication is answered late, against guessing."),
    key("request.timeout.ms", INT, "30000", HIGH, READ_ONLY, ENFORCED, ANYTHING, "How long this node waits for the answer of another node."),
    key("max.request.partition.size.limit", INT, "2000", MEDIUM, READ_ONLY, ENFORCED, at_least(1),
        "How many partitions one DescribeTopicPartitions answer holds at most."),
    key("fetch.max.bytes", INT, "57671680", MEDIUM, READ_ONLY, ENFORCED, at_least(1_024),
        "The most bytes that one fetch answers, whatever the client asks for; a larger first batch still goes whole."),
    key("max.incremental.fetch.session.cache.slots", INT, "1000", MEDIUM, READ_ONLY, ENFORCED, at_least(0), "How many incremental fetch sessions are kept."),
    key("fetch.purgatory.purge.interval.requests", INT, "1000", MEDIUM, READ_ONLY, ACCEPTED, ANYTHING,
        "How often waiting fetches that are done are cleared away. Here they leave at once."),
    key("producer.purgatory.purge.interval.requests", INT, "1000", MEDIUM, READ_ONLY, ACCEPTED, ANYTHING,
        "How often waiting produces that are done are cleared away. Here they leave at once."),
    key("delete.records.purgatory.purge.interval.requests", INT, "1", MEDIUM, READ_ONLY, ACCEPTED, ANYTHING,
        "How often waiting record deletions that are done are cleared away. Here they leave at once."),
    key("share.fetch.purgatory.purge.interval.requests", INT, "1000", MEDIUM, READ_ONLY, ACCEPTED, ANYTHING,
        "How often waiting share fetches that are done are cleared away. Here they leave at once."),
)
