"""From the Java client's property names, which the `kafka.*` options use, to librdkafka's.

Most names are the same in both. Where they differ they are translated; what only tunes the Java client has no effect
and says so; what cannot be honoured is refused, because a query that silently runs without the security it asked for
is worse than one that does not start.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping

log = logging.getLogger(__name__)

RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
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
        "security.providers",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.truststore.type",
        "ssl.keystore.type",
        "ssl.provider",
        "socket.connection.setup.timeout.max.ms",
    }
)
KNOWN = JAVA_ONLY | {
    *RENAMED,
    "sasl.jaas.config",
    "partitioner.class",
    "buffer.memory",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "isolation.level",
}
"""Those that are translated, or told about in another way."""
NO_PROPERTY = "kraft.no.such.property"
JAAS = re.compile(r"^\s*([\w.]+)\s+required\s+(.*?);?\s*$", re.DOTALL)
JAAS_SETTING = re.compile(r"(\w+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s;]+)")
ADMIN_DEFAULTS = {"socket.nagle.disable": "true", "log_level": "4"}
CONSUMER_DEFAULTS = {
    # Kafka's Java consumer reads uncommitted records unless told otherwise, librdkafka does not.
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


def admin_config(kafka: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    """For the driver's look-ups. Raises ValueError for what cannot be honoured."""
    consumer_only = ("group.id", "isolation.level")
    return {**ADMIN_DEFAULTS, **{name: value for name, value in translate(kafka).items() if name not in consumer_only}}


def consumer_config(kafka: Mapping[str, str], group_id: str) -> dict[str, str]:
    """For a task that reads. `group_id` is used unless `kafka.group.id` is set; no offset is ever committed to it."""
    return {**CONSUMER_DEFAULTS, "group.id": group_id, **translate(kafka), **CONSUMER_FIXED}


def producer_config(kafka: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    """For a task that writes."""
    return {**PRODUCER_DEFAULTS, **translate(kafka), **PRODUCER_FIXED}


def translate(kafka: Mapping[str, str]) -> dict[str, str]:
    """The given properties under librdkafka's names. What no client knows has no effect, as with the Java client."""
    config: dict[str, str] = {}
    for name, value in kafka.items():
        if not is_known(name):
            log.warning("kafka.%s is not known to any client and has no effect", name)
            continue
        if name in JAVA_ONLY or name.startswith(("metrics.", "spark.")):
            log.info("kafka.%s only concerns the Java client and has no effect here", name)
        elif name == "sasl.jaas.config":
            config.update(jaas(value))
        elif name == "partitioner.class":
            raise ValueError(
                "kafka.partitioner.class names a Java class; set kafka.partitioner to one of librdkafka's instead"
            )
        elif name == "buffer.memory":
            config["queue.buffering.max.kbytes"] = str(max(1, int(value) // 1024))
        elif name == "ssl.endpoint.identification.algorithm":
            config[name] = value.strip() or "none"
        elif name in ("ssl.truststore.location", "ssl.keystore.location"):
            config.update(store(name, value, kafka))
        elif name == "ssl.truststore.password":
            log.info("kafka.ssl.truststore.password has no effect: PEM certificates have no password")
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


def store(name: str, path: str, kafka: Mapping[str, str]) -> dict[str, str]:
    """Key and trust stores: PEM, and PKCS12 for keys. JKS is Java's own format."""
    kind = kafka.get(
        name.replace(".location", ".type"), "PEM" if path.endswith((".pem", ".crt", ".cer")) else "JKS"
    ).upper()
    if kind == "PEM":
        return (
            {"ssl.ca.location": path}
            if name == "ssl.truststore.location"
            else {"ssl.certificate.location": path, "ssl.key.location": path}
        )
    if kind == "PKCS12" and name == "ssl.keystore.location":
        return {"ssl.keystore.location": path}
    raise ValueError(
        f"kafka.{name} is a {kind} store, which only Java reads; export it as PEM and set "
        f"kafka.{name.replace('.location', '.type')} to PEM"
    )


def jaas(text: str) -> dict[str, str]:
    """User name and password from `sasl.jaas.config`. Never quotes the text in an error: it holds a secret."""
    match = JAAS.match(text)
    if match is None:
        raise ValueError("kafka.sasl.jaas.config is not of the form '<login module> required <name>=<value> ...;'")
    settings = {name: unquote(value) for name, value in JAAS_SETTING.findall(match[2])}
    module = match[1].rpartition(".")[2]
    if module not in ("PlainLoginModule", "ScramLoginModule"):
        raise ValueError(
            f"kafka.sasl.jaas.config names {module}; without Java only PlainLoginModule and ScramLoginModule "
            "can be honoured"
        )
    if not settings.keys() >= {"username", "password"}:
        raise ValueError("kafka.sasl.jaas.config must set username and password")
    return {"sasl.username": settings["username"], "sasl.password": settings["password"]}


def unquote(value: str) -> str:
    if value[0] in "\"'" and value[-1] == value[0]:
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value
