"""Options of a read, checked before anything runs. Names, precedence and rejected values are those of Spark's own Kafka
connector. Names are case-insensitive."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kraft.common.ids import TopicPartition
from kraft.common.java_pattern import java_pattern
from kraft.spark.client.client_config import is_known
from kraft.spark.client.wire_security import PLAINTEXT, SECURITY_KEYS, WireSecurity, only_librdkafka, parted
from kraft.spark.decode.shape_options import SHAPE_KEYS, refuse_misspelt, shape_options
from kraft.spark.errors import show_partitions
from kraft.spark.option_values import (
    choice,
    flag,
    number,
    or_else,
    parse_offsets,
    parse_partitions,
)
from kraft.spark.source.look_ups import TIMEOUT_MS

if TYPE_CHECKING:
    from kraft.spark.decode.shape import Shape

log = logging.getLogger(__name__)

EARLIEST = -2
LATEST = -1
KAFKA_PREFIX = "kafka."
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
"""The first is the default, as with the official connector."""
STRATEGIES = ("subscribe", "subscribepattern", "assign")
OF_TABLE = ("path", "provider", "owner")
"""Properties that Spark passes for a table besides its options. It also repeats the options as `option.<name>`."""
STRATEGY_NAMES = "subscribe, subscribePattern, assign"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Read all partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """Read every topic whose name matches the regular expression anywhere, except internal topics."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """Read these partitions, if they exist."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same sentinel, EARLIEST or LATEST, for every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset or sentinel for every partition."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
    """For every partition, the first record at or after its own time (ms)."""

    timestamps: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GlobalTimestamp:
    """For every partition, the first record at or after one common time (ms)."""

    timestamp: int


Selection = Subscribe | SubscribePattern | Assign
Limit = Everywhere | SpecificOffsets | SpecificTimestamps | GlobalTimestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a batch or streaming read. `ending` is None for a stream."""

    selection: Selection
    starting: Limit
    ending: Limit | None
    latest_if_no_match: bool
    fail_on_data_loss: bool
    include_headers: bool
    refuse_names: bool
    """Whether header names that are not UTF-8 fail the read. Otherwise such bytes are replaced, as in Java."""
    partitions_min: int | None
    records_per_partition_max: int | None
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_ms_max: int
    poll_timeout_ms: int
    offset_fetch_attempts_max: int
    offset_fetch_retry_ms: int
    group_id_prefix: str
    direct: bool
    """Whether tasks read with the built-in client that decodes straight into Arrow, else with librdkafka."""
    commit_group: str | None
    """A consumer group to which a stream's progress is committed, so that its lag is visible. It is never read."""
    kafka: Mapping[str, str] = field(repr=False)
    """Client keys, without those in `security`."""
    security: WireSecurity = PLAINTEXT
    """The security of all connections, for either client."""
    shape: Shape | None = None
    """The conversion of rows; None leaves them unchanged."""
    own_look_ups: bool = True
    """Whether the driver looks up metadata and offsets with the built-in client, else with librdkafka."""
    look_up_timeout_ms: int = TIMEOUT_MS
    """The timeout of one attempt at a look-up."""
    request_timeout_ms: int = TIMEOUT_MS
    is_login_known: bool = True
    """Whether `security` has the login. False for a login that only librdkafka supports."""
    share_group: str | None = None
    """The share group (KIP-932) from which a stream acquires its records; None reads all records."""
    readers: int | None = None
    """The tasks of a micro-batch of a share group; None is one for each processor of the driver's machine."""

    @property
    def committed(self) -> bool:
        """Whether records of aborted and open transactions are left out (read_committed)."""
        return self.kafka.get("isolation.level", ISOLATION_LEVELS[0]).strip().lower() == ISOLATION_LEVELS[1]


SOURCE_KEYS = frozenset(
    {
        *STRATEGIES,
        "startingoffsets",
        "startingoffsetsbytimestamp",
        "startingtimestamp",
        "startingoffsetsbytimestampstrategy",
        "endingoffsets",
        "endingoffsetsbytimestamp",
        "endingtimestamp",
        "failondataloss",
        "includeheaders",
        "minpartitions",
        "maxrecordsperpartition",
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "maxtriggerdelay",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "groupidprefix",
        "fetcher",
        "commitgroup",
        "headernames",
        "sharegroup",
        "readers",
        *SHAPE_KEYS,
    }
)
DIRECT_TUNING = frozenset(
    {
        "bootstrap.servers",
        "group.id",
        "client.id",
        "max.poll.records",
        "max.poll.interval.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "fetch.max.wait.ms",
        "max.partition.fetch.bytes",
        "check.crcs",
        "request.timeout.ms",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "default.api.timeout.ms",
        "receive.buffer.bytes",
        "send.buffer.bytes",
    }
)
"""Consumer properties that the built-in reader ignores. They affect tuning only, so they do not require librdkafka."""
CONNECTING = ("ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "broker.address.")
"""Prefixes of librdkafka's connection properties."""
REFUSED = {
    "auto.offset.reset": (
        "Instead set the source option 'startingOffsets' to 'earliest' or 'latest' to specify where to start."
    ),
    "key.deserializer": "Keys are binary; use DataFrame operations to decode them.",
    "value.deserializer": "Values are binary; use DataFrame operations to decode them.",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint.",
    "interceptor.classes": "Interceptors could change the data.",
}


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of `spark.read`. Raises ValueError with the official connector's wording."""
    given = lower(options)
    for name in ("shareGroup", "readers"):
        if name.lower() in given:
            raise ValueError(
                f"Option {name} needs spark.readStream: only a stream accepts the records of a share group when they "
                "are processed"
            )
    starting = limit_of(given, "starting", Everywhere(EARLIEST))
    refuse_sentinel(starting, LATEST, "starting offset can't be latest{}", "startingOffsets for {} can't be latest{}")
    ending = limit_of(given, "ending", Everywhere(LATEST))
    refuse_sentinel(ending, EARLIEST, "ending offset can't be earliest{}", "ending offset for {} can't be earliest{}")
    parsed = parse(given, starting, ending)
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        if name.lower() in given:
            log.warning("%s option ignored in batch queries", name)
    check_order(starting, ending)
    return parsed


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of `spark.readStream`. Raises ValueError with the official connector's wording."""
    given = lower(options)
    if "endingoffsets" in given:
        raise ValueError("ending offset not valid in streaming queries")
    if "endingoffsetsbytimestamp" in given or "endingtimestamp" in given:
        raise ValueError("ending timestamp not valid in streaming queries")
    return parse(given, limit_of(given, "starting", Everywhere(LATEST)), None)


def lower(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with lower-case names. Logs a warning for an option that this source does not use."""
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name not in (*SOURCE_KEYS, *OF_TABLE, "topic") and not name.startswith((KAFKA_PREFIX, "option.")):
            refuse_misspelt(name)
            log.warning("option %s is not one of this source's and has no effect", name)
    return given


def parse(given: Mapping[str, str], starting: Limit, ending: Limit | None) -> SourceOptions:
    selection = selection_of(given)
    partitions_min = number(given, "minPartitions", at_least=1, otherwise="minPartitions must be positive")
    records_max = number(
        given, "maxRecordsPerPartition", at_least=1, otherwise="maxRecordsPerPartition must be positive"
    )
    kafka = kafka_options(given)
    direct, is_login_known = direct_of(given, kafka), only_librdkafka(kafka) is None
    own_look_ups = librdkafka_to_connect(kafka) is None
    security, kafka = parted(kafka)
    offsets_max, offsets_min = number(given, "maxOffsetsPerTrigger"), number(given, "minOffsetsPerTrigger")
    if offsets_max is not None and offsets_min is not None and offsets_min > offsets_max:
        raise ValueError(
            f"The value of minOffsetPerTrigger({offsets_min}) is higher than the maxOffsetsPerTrigger({offsets_max})."
        )
    return SourceOptions(
        selection=selection,
        starting=starting,
        ending=ending,
        latest_if_no_match=choice(given, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        == "latest",
        fail_on_data_loss=flag(given, "failOnDataLoss", True),
        include_headers=flag(given, "includeHeaders", False),
        refuse_names=choice(given, "headerNames", ("replace", "refuse"), "replace") == "refuse",
        partitions_min=partitions_min,
        records_per_partition_max=records_max,
        offsets_per_trigger_max=offsets_max,
        offsets_per_trigger_min=offsets_min,
        trigger_delay_ms_max=parse_duration_ms(given.get("maxtriggerdelay", "15m")),
        poll_timeout_ms=or_else(number(given, "kafkaConsumer.pollTimeoutMs"), 120_000),
        offset_fetch_attempts_max=or_else(number(given, "fetchOffset.numRetries"), 3),
        offset_fetch_retry_ms=or_else(number(given, "fetchOffset.retryIntervalMs"), 1000),
        group_id_prefix=given.get(
            "groupidprefix", "spark-kafka-relation" if ending is not None else "spark-kafka-source"
        ),
        direct=direct,
        commit_group=given.get("commitgroup") or None,
        kafka=kafka,
        security=security,
        is_login_known=is_login_known,
        own_look_ups=own_look_ups,
        look_up_timeout_ms=timeout_of(kafka, "default.api.timeout.ms"),
        request_timeout_ms=timeout_of(kafka, "request.timeout.ms"),
        shape=shape_options(given, flag(given, "includeHeaders", False)),
    )


def direct_of(given: Mapping[str, str], kafka: Mapping[str, str]) -> bool:
    """Whether kraft's own client reads. With `auto`, librdkafka reads only if an option needs it. Raises ValueError."""
    chosen = choice(given, "fetcher", ("auto", "direct", "librdkafka"), "auto")
    needed = librdkafka_for(kafka)
    if chosen == "direct" and needed is not None:
        raise ValueError(f"fetcher=direct cannot honour kafka.{needed}; set fetcher to auto or librdkafka")
    return chosen != "librdkafka" and needed is None


def librdkafka_for(kafka: Mapping[str, str]) -> str | None:
    """Return a property that only librdkafka supports (Kerberos, racks and so on); None if there is none. Raises
    ValueError."""
    honoured = DIRECT_TUNING | SECURITY_KEYS
    if (login := only_librdkafka(kafka)) is not None:
        return login
    return next(
        (
            name
            for name, value in sorted(kafka.items())
            if name not in honoured
            and not (name == "isolation.level" and value.strip().lower() in ISOLATION_LEVELS)
            and is_known(name)
        ),
        None,
    )


def librdkafka_to_connect(kafka: Mapping[str, str]) -> str | None:
    """Return a property that only librdkafka supports and that the connection depends on; None if there is none. Raises
    ValueError."""
    if (login := only_librdkafka(kafka)) is not None:
        return login
    others = (name for name in sorted(kafka) if name.startswith(CONNECTING) and name not in SECURITY_KEYS)
    return next(filter(is_known, others), None)


def timeout_of(kafka: Mapping[str, str], name: str) -> int:
    """Return the timeout in ms under a client key. Raises ValueError."""
    return or_else(number(kafka, name, at_least=1, otherwise=f"kafka.{name} must be positive"), TIMEOUT_MS)


def kafka_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the `kafka.*` options without their prefix. Raises ValueError for options that would break Spark's
    guarantees."""
    kafka = {name[len(KAFKA_PREFIX) :]: value for name, value in given.items() if name.startswith(KAFKA_PREFIX)}
    for name, reason in REFUSED.items():
        if name in kafka:
            raise ValueError(f"Kafka option '{name}' is not supported. {reason}")
    if "bootstrap.servers" not in kafka:
        raise ValueError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    if "group.id" in kafka:
        log.warning(
            "kafka.group.id is set: concurrent queries with the same group id can interfere; use one query "
            "per group id. groupIdPrefix is ignored."
        )
    return kafka


def selection_of(given: Mapping[str, str]) -> Selection:
    """Parse the selection: exactly one of subscribe, subscribePattern, assign. Raises ValueError."""
    chosen = [name for name in STRATEGIES if name in given]
    if not chosen:
        raise ValueError(
            f"One of the following options must be specified for Kafka source: {STRATEGY_NAMES}. See the docs "
            "for more details."
        )
    if len(chosen) > 1:
        raise ValueError(
            f"Only one of the following options can be specified for Kafka source: {STRATEGY_NAMES}. See the "
            "docs for more details."
        )
    value = given[chosen[0]]
    if chosen[0] == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
        if not topics:
            raise ValueError(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
        return Subscribe(topics)
    if chosen[0] == "subscribepattern":
        if not value.strip():
            raise ValueError(
                f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
            )
        java_pattern(value.strip())  # Reject an invalid pattern before anything runs.
        return SubscribePattern(value.strip())
    if not value.strip().startswith("{"):
        raise ValueError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
    return Assign(parse_partitions(value))


def limit_of(given: Mapping[str, str], side: str, default: Limit) -> Limit:
    """Parse where a read starts or ends. One time for all partitions takes precedence over a time per partition, and a
    time per partition over offsets."""
    if (text := given.get(f"{side}timestamp")) is not None:
        try:
            timestamp = int(text.strip())
        except ValueError:
            raise ValueError(f"Expected a single long value, got {text.strip()}") from None
        return GlobalTimestamp(target_time(timestamp, f"{side}Timestamp"))
    if (text := given.get(f"{side}offsetsbytimestamp")) is not None:
        times = parse_offsets(
            text, '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
        )
        return SpecificTimestamps(
            {partition: target_time(timestamp, f"partition {partition}") for partition, timestamp in times.items()}
        )
    text = given.get(f"{side}offsets")
    if text is None:
        return default
    word = text.strip().lower()
    if word in ("latest", "earliest"):
        return Everywhere(LATEST if word == "latest" else EARLIEST)
    return SpecificOffsets(parse_offsets(text))


def target_time(timestamp: int, where: str) -> int:
    """Return the time to look up, checked as Kafka's consumer does. Raises ValueError below zero: negatives are
    sentinels."""
    if timestamp < 0:
        raise ValueError(f"The target time for {where} is {timestamp}. The target time cannot be negative.")
    return timestamp


def refuse_sentinel(limit: Limit, sentinel: int, everywhere: str, single: str) -> None:
    if limit == Everywhere(sentinel):
        raise ValueError(everywhere.format(" for batch queries on Kafka"))
    if isinstance(limit, SpecificOffsets):
        for partition, offset in limit.offsets.items():
            if offset == sentinel:
                raise ValueError(single.format(partition, " for batch queries on Kafka"))


def check_order(starting: Limit, ending: Limit) -> None:
    """Check that two explicit limits name the same partitions and no start is after its end. Raises ValueError."""
    if isinstance(starting, SpecificOffsets) and isinstance(ending, SpecificOffsets):
        kind, starts, ends = "offset", starting.offsets, ending.offsets
    elif isinstance(starting, SpecificTimestamps) and isinstance(ending, SpecificTimestamps):
        kind, starts, ends = "timestamp", starting.timestamps, ending.timestamps
    else:
        return
    if starts.keys() != ends.keys():
        raise ValueError(
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET] The specified start offset and "
            "end offset should have the same "
            f"topic-partitions. Topic-partitions for start offset: {show_partitions(starts)}, "
            f"topic-partitions for end offset: {show_partitions(ends)}."
        )
    for partition, start in starts.items():
        if start > ends[partition] >= 0 <= start:
            raise ValueError(
                f"[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The specified start {kind} {start} is "
                f"greater than the end {kind} {ends[partition]} "
                f"for topic {partition.topic} partition {partition.partition}."
            )


UNITS_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration_ms(text: str) -> int:
    """Parse Spark's time strings (`15m`, `100 ms`) to ms. A bare number is in ms. Raises ValueError."""
    match = re.fullmatch(r"(-?\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in UNITS_MS:
        raise ValueError(
            f"Expected a time as <number><unit> with one of the units us, ms, s, m, min, h, d, got '{text}'"
        )
    return int(int(match[1]) * UNITS_MS[match[2]])
