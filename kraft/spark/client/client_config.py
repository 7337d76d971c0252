"""Translate the Java client's property names, which the `kafka.*` options use, to librdkafka's.

Most names are the same. Different names are translated. A property that only tunes the Java client has no effect, and a
warning is logged. A property that cannot be honoured is rejected: a query that silently runs without the requested
security is worse than one that does not start.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

from kraft.spark.client.wire_security import PLAINTEXT, SECURITY_KEYS, WireSecurity

log = logging.getLogger(__name__)

RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
}
JAVA_ONLY = frozenset(
    {
        "max.poll.records",
        "default.api.timeout.ms",
        "max.block.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "auto.include.jmx.reporter",
        "exclude.internal.topics",
        "partition.assignment.strategy",
        "client.dns.lookup",
        "key.serializer",
        "value.serializer",
        "partitioner.ignore.keys",
        "partitioner.adaptive.partitioning.enable",
        "socket.connection.setup.timeout.max.ms",
    }
)
KNOWN = JAVA_ONLY | {
    *RENAMED,
    *SECURITY_KEYS,
    "partitioner.class",
    "buffer.memory",
    "isolation.level",
}
"""Names that are translated or handled in another way."""
NO_PROPERTY = "kraft.no.such.property"
ADMIN_DEFAULTS = {"socket.nagle.disable": "true", "log_level": "4"}
CONSUMER_DEFAULTS = {
    # By default Kafka's Java consumer reads uncommitted records, librdkafka does not.
    "isolation.level": "read_uncommitted",
    "check.crcs": "true",
    # A range may end in control records, which never arrive: the end of the partition then ends the read, and is
    # noticed one empty fetch later.
    "enable.partition.eof": "true",
    "fetch.wait.max.ms": "100",
    # After a full queue librdkafka pauses a whole second by default.
    "fetch.queue.backoff.ms": "5",
    "queued.max.messages.kbytes": "32768",
    "fetch.message.max.bytes": "4194304",
    "log_level": "4",
    "socket.nagle.disable": "true",
}
CONSUMER_FIXED = {"enable.auto.commit": "false", "enable.auto.offset.store": "false", "auto.offset.reset": "error"}
PRODUCER_DEFAULTS = {
    "enable.idempotence": "true",
    "acks": "all",
    # The Java client's partitioner, so that keys land where other producers put them.
    "partitioner": "murmur2_random",
    "linger.ms": "5",
    "log_level": "4",
    "socket.nagle.disable": "true",
}
PRODUCER_FIXED = {"delivery.report.only.error": True}  # The Python client reads this one itself, as a bool.


class Config(dict[str, Any]):
    """librdkafka's properties. They may hold secrets, so the repr shows only their names."""

    def __repr__(self) -> str:
        return f"Config({', '.join(self)})"


def admin_config(kafka: Mapping[str, str], security: WireSecurity = PLAINTEXT) -> Config:
    """Return the configuration of the driver's look-ups. Raises ValueError for a property that cannot be honoured."""
    consumer_only = ("group.id", "isolation.level")
    given = {name: value for name, value in translate(kafka).items() if name not in consumer_only}
    return Config({**ADMIN_DEFAULTS, **security.librdkafka(), **given})


def consumer_config(kafka: Mapping[str, str], group_id: str, security: WireSecurity = PLAINTEXT) -> Config:
    """Return the configuration of a reading task. `group_id` is used unless `kafka.group.id` is set. No offsets are
    ever committed to the group."""
    given = {**security.librdkafka(), **translate(kafka)}
    return Config({**CONSUMER_DEFAULTS, "group.id": group_id, **given, **CONSUMER_FIXED})


def producer_config(kafka: Mapping[str, str], security: WireSecurity = PLAINTEXT) -> Config:
    """Return the configuration of a writing task."""
    return Config({**PRODUCER_DEFAULTS, **security.librdkafka(), **translate(kafka), **PRODUCER_FIXED})


def translate(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the given properties, except security, under librdkafka's names. A name that neither client knows has no
    effect, as with the Java client."""
    config: dict[str, str] = {}
    for name, value in kafka.items():
        if not is_known(name):
            log.warning("kafka.%s is not known to any client and has no effect", name)
            continue
        if name in JAVA_ONLY or name.startswith(("metrics.", "spark.")):
            log.info("kafka.%s only concerns the Java client and has no effect here", name)
        elif name == "partitioner.class":
            raise ValueError(
                "kafka.partitioner.class names a Java class; set kafka.partitioner to one of librdkafka's instead"
            )
        elif name == "buffer.memory":
            config["queue.buffering.max.kbytes"] = str(max(1, int(value) // 1024))
        else:
            config[RENAMED.get(name, name)] = value
    return config


@functools.lru_cache(maxsize=256)
def is_known(name: str) -> bool:
    """Whether the Java client or librdkafka has a property of this name."""
    if name in KNOWN or name.startswith(("metrics.", "spark.")):
        return True
    from confluent_kafka import KafkaException, Producer

    try:
        # Never becomes a client: the second property is not known in any case, and the first is looked at first.
        Producer({name: "", NO_PROPERTY: ""})
    except KafkaException as problem:
        return f'No such configuration property: "{name}"' not in problem.args[0].str()
    return True
