"""Options and columns of a sink, checked before anything runs. Messages use the official connector's wording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kraft.protocol.records.compression import CODEC_NAMES
from kraft.spark.client.client_config import is_known, producer_config
from kraft.spark.client.wire_security import (
    PLAINTEXT,
    SECURITY_KEYS,
    WireSecurity,
    only_librdkafka,
    parted,
    security_of,
)
from kraft.spark.option_values import choice, flag

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Setting = str | int | float | bool
HEADERS = "array<struct<key:string,value:binary>>"
ACCEPTED = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "headers": (HEADERS,),
    "partition": ("int",),
} | {"timestamp": ("timestamp",)}
REFUSED = {"key.serializer": "keys", "value.serializer": "values"}

BUILT_IN_KEYS = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "acks",
        "compression.type",
        "enable.idempotence",
        "linger.ms",
        "batch.size",
        "batch.num.messages",
        "buffer.memory",
        "max.in.flight.requests.per.connection",
        "send.buffer.bytes",
        "receive.buffer.bytes",
        *SECURITY_KEYS,
    }
)
"""Properties that the built-in producer supports for at-least-once writing. Any other needs librdkafka."""
ONCE_KEYS = BUILT_IN_KEYS | {
    "retries",
    "retry.backoff.ms",
    "request.timeout.ms",
    "delivery.timeout.ms",
    "max.block.ms",
    "max.request.size",
    "transaction.timeout.ms",
}
"""Producer properties that exactly-once writing applies, or that only tune a producer."""
CLIENT_ID = "kraft-spark"
TRANSACTION_MS = 300_000
"""How long the driver may take to write a micro-batch. Brokers allow 900,000 by default."""


@dataclass(frozen=True)
class SinkOptions:
    """The checked options of a sink. `topic` is the option, or None if the column gives the topic. `once_id`
    distinguishes several writes of one micro-batch. `on_difference`: what to do with a batch that was committed with
    another number of rows. `task_transactions`: whether tasks of many rows may write them themselves, at the same time;
    without it the rows of a partition keep the order of the tasks."""

    topic: str | None
    config: dict[str, Setting] = field(repr=False)
    columns: tuple[str, ...]
    bootstrap: str
    exactly_once: bool
    once_id: str
    codec: int
    """The compression of the built-in producer."""
    keep_timestamp: bool
    on_difference: str = "fail"
    task_transactions: bool = True
    transaction_ms: int = TRANSACTION_MS
    security: WireSecurity = PLAINTEXT
    """The security of all connections."""
    is_login_known: bool = True
    """Whether `security` has the login. False for a login that only librdkafka supports."""
    is_built_in: bool = False
    """Whether at-least-once writing uses the built-in producer instead of librdkafka."""
    client_id: str = CLIENT_ID
    """The client id of the built-in producer."""


def sink_options(options: Mapping[str, str], schema: StructType, *, streaming: bool) -> SinkOptions:
    """Check options and columns. Raises ValueError."""
    given = {name.lower(): value for name, value in options.items()}
    kafka = {name[6:]: value for name, value in given.items() if name.startswith("kafka.")}
    for name, what in REFUSED.items():
        if name in kafka:
            raise ValueError(
                f"Kafka option '{name}' is not supported as {what} are serialized with ByteArraySerializer."
            )
    if "bootstrap.servers" not in kafka:
        raise ValueError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    topic = given["topic"].strip() if "topic" in given else None
    keep_timestamp = flag(given, "keepTimestamp", False)
    check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, topic, keep_timestamp)
    exactly_once = flag(given, "exactlyOnce", streaming)
    if exactly_once:
        check_exactly_once(kafka)
    is_built_in = not exactly_once and suits_built_in(kafka)
    security, others = (security_of(kafka), kafka) if exactly_once else parted(kafka)
    return SinkOptions(
        topic=topic,
        config={} if exactly_once else producer_config(others, security),
        security=security,
        is_login_known=exactly_once or only_librdkafka(kafka) is None,
        columns=tuple(schema.fieldNames()),
        bootstrap=kafka["bootstrap.servers"],
        exactly_once=exactly_once,
        once_id=given.get("exactlyonceid", ""),
        codec=codec_of(kafka) if exactly_once or is_built_in else 0,
        keep_timestamp=keep_timestamp,
        on_difference=choice(given, "onDifference", ("fail", "keep", "atleastonce"), "fail"),
        task_transactions=choice(given, "taskTransactions", ("auto", "never"), "auto") == "auto",
        transaction_ms=transaction_ms_of(kafka) if exactly_once else TRANSACTION_MS,
        is_built_in=is_built_in,
        client_id=kafka.get("client.id", CLIENT_ID),
    )


def check_columns(types: Mapping[str, str], topic: str | None, keep_timestamp: bool) -> None:
    if topic is None and "topic" not in types:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in types:
        raise ValueError("Required attribute 'value' not found")
    if keep_timestamp and "timestamp" not in types:
        raise ValueError("keepTimestamp is set, but there is no attribute 'timestamp'")
    for name, accepted in ACCEPTED.items():
        matters = not (name == "topic" and topic is not None) and not (name == "timestamp" and not keep_timestamp)
        if name in types and types[name] not in accepted and matters:
            raise ValueError(
                f"{name} attribute unsupported type {types[name]}. {name} must be a(n) {' or '.join(accepted)}"
            )


def check_exactly_once(kafka: Mapping[str, str]) -> None:
    """Raise ValueError for a property that the built-in producer cannot honour. The property is not ignored, and the
    sink does not fall back to at-least-once."""
    if strange := [name for name in sorted(kafka.keys() - ONCE_KEYS) if is_known(name)]:
        raise ValueError(
            f"kafka.{strange[0]} cannot be honoured while the sink writes exactly once; set the option "
            "exactlyOnce to false, or leave it out"
        )
    if kafka.get("acks", "all").strip() not in ("all", "-1"):
        raise ValueError(
            "kafka.acks must be all while the sink writes exactly once; set the option exactlyOnce to false "
            "to choose otherwise"
        )


def suits_built_in(kafka: Mapping[str, str]) -> bool:
    """Whether the built-in producer supports all given properties. Raises ValueError."""
    return (
        kafka.keys() <= BUILT_IN_KEYS
        and kafka.get("acks", "all").strip() in ("all", "-1")
        and kafka.get("enable.idempotence", "true").strip().lower() == "true"
        and kafka.get("compression.type", "none").strip().lower() in CODEC_NAMES
        and only_librdkafka(kafka) is None
    )


def codec_of(kafka: Mapping[str, str]) -> int:
    name = kafka.get("compression.type", "none").strip().lower()
    if name not in CODEC_NAMES:
        raise ValueError(f"kafka.compression.type must be one of {', '.join(CODEC_NAMES)}, got '{name}'")
    return CODEC_NAMES.index(name)


def transaction_ms_of(kafka: Mapping[str, str]) -> int:
    """Return the transaction timeout in ms. Raises ValueError."""
    text = kafka.get("transaction.timeout.ms", str(TRANSACTION_MS)).strip()
    if not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise ValueError(f"kafka.transaction.timeout.ms must be a number of milliseconds, got '{text}'")
    return int(text)
