"""The clients that push metrics to this broker (KIP-714): the subscription of each, the check of its push interval, and
its latest metrics. All of it is kept in memory only. Rules and codes are those of Kafka's ClientMetricsManager.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from kraft.common.config.dynamic.client_metrics import Subscription
from kraft.common.errors import ApiError
from kraft.common.ids import METADATA_TOPIC_ID, ZERO_UUID, uuid_to_text
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from kraft.telemetry.budget import BYTES_A_SECOND, PushBudget
from kraft.telemetry.otlp import Attributes, Push
from kraft.telemetry.summary import NO_SUMMARY, Summary, nodes_of, summary_of

INSTANCES_MAX: Final = 16_384
"""Limit of client entries, as in Kafka. Beyond it, the client that was silent for the longest is removed."""
POINTS_MAX: Final = 200_000
"""Limit of metric values kept for all clients together. Beyond it, the values of the client that was silent for the
longest are dropped; its entry is kept."""
DEFAULT_INTERVAL_MS: Final = 300_000
"""The interval of a client that no subscription covers. As in Kafka, it is also the longest interval that a
subscription can set."""
KEPT_MS_MIN: Final = 60_000
KEPT_INTERVALS: Final = 3
"""A client's entry is removed after this many push intervals without a request, but not before KEPT_MS_MIN."""
TEXT_CHARS_MAX: Final = 256
"""Characters kept of a client id, a software name or a version."""
ALL: Final = "*"
COMPRESSIONS: Final = (ZSTD, LZ4, GZIP, SNAPPY)
"""The codecs that a push may have, the preferred one first. A push may also be uncompressed."""
RESERVED: Final = (ZERO_UUID, METADATA_TOPIC_ID)
_LONG_AGO: Final = -(1 << 62)

Series = tuple[str, Attributes]


@dataclass(frozen=True, slots=True)
class Client:
    """The properties of a client that subscriptions can match: text by selector (KIP-714). Unknown ones are absent."""

    texts: Mapping[str, str]

    def text(self, selector: str) -> str:
        """The text of a selector, cut to TEXT_CHARS_MAX; empty if it is unknown."""
        return self.texts.get(selector, "")[:TEXT_CHARS_MAX]


@dataclass(slots=True, eq=False)
class Instance:
    """The entry of one client instance. Times are monotonic milliseconds."""

    instance_id: bytes
    client: Client
    subscriptions: tuple[str, ...]
    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int
    version: int
    asked_ms: int = _LONG_AGO
    pushed_ms: int = _LONG_AGO
    last_ms: int = 0
    """Time of the last request of any kind."""
    is_terminating: bool = False
    last_error: int = ErrorCode.NONE
    pushes: int = 0
    left_out: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    values: dict[Series, float] = field(default_factory=dict)
    monotonic: frozenset[str] = frozenset()
    """Names of the monotonic sums among the metrics."""
    summary: Summary = NO_SUMMARY
    nodes: tuple[int, ...] = ()
    """Ids of the brokers that occur in its metrics: it sends requests to them."""

    def may_ask(self, now_ms: int) -> bool:
        """Whether the client may request its subscription now: at most once in each push interval. If so, the time is
        recorded."""
        if now_ms - max(self.asked_ms, self.pushed_ms) < self.interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether the push interval has passed since the last push. If so, the time is recorded. The first push after a
        subscription request may come earlier, because clients send it after a random 0.5 to 1.5 intervals."""
        if self.asked_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True

    def is_over(self, now_ms: int) -> bool:
        """Whether the entry has expired: the client has been silent for KEPT_INTERVALS of its push interval."""
        return now_ms - self.last_ms >= max(KEPT_INTERVALS * self.interval_ms, KEPT_MS_MIN)


class ClientInstances:
    """The entries of all clients that push to this broker. Methods raise ApiError with Kafka's codes."""

    def __init__(self, telemetry_bytes_max: int) -> None:
        self.telemetry_bytes_max = telemetry_bytes_max
        self._by_id: OrderedDict[bytes, Instance] = OrderedDict()
        """Clients by instance id, in the order of their last request: the longest silent one is first."""
        self._subscriptions: Mapping[str, Subscription] = {}
        self._version = 0
        self._points = 0
        self.refused = 0
        """Number of requests that got an error."""
        self.over_budget = 0
        """The number of `refused` requests that were pushes over the broker's budget."""
        self.budget = PushBudget()

    @property
    def count(self) -> int:
        """The number of client entries."""
        return len(self._by_id)

    def subscribe_to(self, subscriptions: Mapping[str, Subscription]) -> None:
        """Replace the subscriptions (by name). Each client is matched again at its next request."""
        self._subscriptions = subscriptions
        self._version += 1

    def ask(self, instance_id: bytes, client: Client, now_ms: int, new_id: Callable[[], bytes]) -> Instance:
        """Return the entry for a client that requests its subscription. A zero id requests a new instance id; its text
        never begins with "-", so that it cannot be taken for an option of a command. Raises THROTTLING_QUOTA_EXCEEDED
        if the push interval is not over, unless the client's last push got an error after which it must request its
        subscription."""
        if instance_id == ZERO_UUID:
            instance_id = new_id()
            while instance_id in RESERVED or instance_id in self._by_id or uuid_to_text(instance_id)[0] == "-":
                instance_id = new_id()
        instance = self._instance(instance_id, client, now_ms)
        may_ask = instance.may_ask(now_ms)
        if not may_ask and instance.last_error not in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ):
            self.refused += 1
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"Request from the client [{uuid_to_text(instance_id)}] arrived before the next push interval time",
            )
        instance.last_error = ErrorCode.NONE
        return instance

    def check_push(
        self,
        instance_id: bytes,
        client: Client,
        now_ms: int,
        *,
        subscription_id: int,
        is_terminating: bool,
        codec: int,
        size: int,
    ) -> Instance:
        """Check a push before its content is decoded. Returns the client's entry. Raises ApiError."""
        if instance_id in RESERVED:
            self.refused += 1
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid request from the client [{uuid_to_text(instance_id)}], invalid client instance id",
            )
        instance = self._instance(instance_id, client, now_ms)
        try:
            self._check_push(instance, now_ms, subscription_id, is_terminating, codec, size)
        except ApiError as problem:
            self.fail(instance, problem.code)
            raise
        finally:
            instance.is_terminating = is_terminating
        return instance

    def _check_push(
        self, instance: Instance, now_ms: int, subscription_id: int, is_terminating: bool, codec: int, size: int
    ) -> None:
        name = uuid_to_text(instance.instance_id)
        if instance.is_terminating:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Client [{name}] sent the previous request with state terminating to TRUE, can not accept any "
                "requests after that",
            )
        in_time = instance.may_push(now_ms)
        if not in_time and not is_terminating:
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"Request from the client [{name}] arrived before the next push interval time",
            )
        if subscription_id != instance.subscription_id:
            raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"Unknown client subscription id for the client [{name}]")
        if codec and codec not in COMPRESSIONS:
            raise ApiError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Unknown compression type [{codec}] is received in telemetry request from [{name}]",
            )
        if size > self.telemetry_bytes_max:
            raise ApiError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"Telemetry request from [{name}] is larger than the maximum allowed size [{self.telemetry_bytes_max}]",
            )

    def check_budget(self, instance: Instance, now_ms: int) -> None:
        """Check whether another push may be read now. Raises ApiError THROTTLING_QUOTA_EXCEEDED."""
        if self.budget.is_left(now_ms):
            return
        self.over_budget += 1
        self.fail(instance, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        raise ApiError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"clients push more than this broker reads, {BYTES_A_SECOND} bytes a second: push again after the interval",
        )

    def fail(self, instance: Instance, code: int) -> None:
        """Record that the client's request gets an error."""
        self.refused += 1
        instance.last_error = code

    def take(self, instance: Instance, push: Push | None) -> None:
        """Store the metrics of a valid push; None for a push without metrics. They replace those of the previous push.
        Sums with delta temporality are added to the previous value."""
        instance.last_error = ErrorCode.NONE
        instance.pushes += 1
        if push is None or self._by_id.get(instance.instance_id) is not instance:
            return
        before = instance.values
        values: dict[Series, float] = {}
        for point in push.points:
            series = (point.name, point.attributes)
            values[series] = point.value + (before.get(series, 0.0) if point.is_delta else 0.0)
        self._points += len(values) - len(before)
        instance.values, instance.labels, instance.left_out = values, push.labels, push.left_out
        instance.summary, instance.nodes = summary_of(values), nodes_of(values)
        instance.monotonic = frozenset(point.name for point in push.points if point.is_monotonic)
        for oldest in self._by_id.values():
            if self._points <= POINTS_MAX:
                break
            if oldest is not instance:
                self._points -= len(oldest.values)
                oldest.values = {}

    def live(self, now_ms: int) -> list[Instance]:
        """The entries that have not expired."""
        return [instance for instance in self._by_id.values() if not instance.is_over(now_ms)]

    def of(self, instance_id: bytes, now_ms: int) -> Instance | None:
        found = self._by_id.get(instance_id)
        return None if found is None or found.is_over(now_ms) else found

    def _instance(self, instance_id: bytes, client: Client, now_ms: int) -> Instance:
        self._expire(now_ms)
        found = self._by_id.get(instance_id)
        if found is None or found.version < self._version:
            before = found
            found = self._matched(instance_id, client)
            if before is not None:  # What it pushed is still true.
                found.pushes, found.labels, found.left_out = before.pushes, before.labels, before.left_out
                found.values, found.monotonic = before.values, before.monotonic
                found.summary, found.nodes = before.summary, before.nodes
            self._by_id[instance_id] = found
            if len(self._by_id) > INSTANCES_MAX:
                self._forget(next(iter(self._by_id)))
        self._by_id.move_to_end(instance_id)
        found.last_ms = now_ms
        return found

    def _expire(self, now_ms: int) -> None:
        """Remove the expired entries. The entry that was silent for the longest is the first one."""
        while self._by_id:
            instance_id, oldest = next(iter(self._by_id.items()))
            if not oldest.is_over(now_ms):
                return
            self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        self._points -= len(self._by_id.pop(instance_id).values)

    def _matched(self, instance_id: bytes, client: Client) -> Instance:
        covering = {name: each for name, each in sorted(self._subscriptions.items()) if each.covers(client.texts)}
        wanted = sorted({metric for each in covering.values() for metric in each.metrics})
        metrics = (ALL,) if ALL in wanted else tuple(wanted)
        interval_ms = min((DEFAULT_INTERVAL_MS, *(each.interval_ms for each in covering.values())))
        kept = Client({selector: client.text(selector) for selector in client.texts})
        return Instance(
            instance_id,
            kept,
            tuple(covering),
            metrics,
            interval_ms,
            subscription_id(metrics, interval_ms, instance_id),
            self._version,
        )


def subscription_id(metrics: Sequence[str], interval_ms: int, instance_id: bytes) -> int:
    """The id of a subscription, a signed 32-bit number: the CRC-32C of its metrics and interval, combined with the
    instance id. A client that pushes with another id must request its subscription again."""
    crc = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    mixed = int.from_bytes(instance_id[:8], "big") ^ int.from_bytes(instance_id[8:], "big")
    found = (crc ^ (mixed >> 32) ^ mixed) & 0xFFFF_FFFF
    return found - (1 << 32) if found >> 31 else found


def slowest_first(instances: Iterable[Instance]) -> list[Instance]:
    """The entries, largest latency first. Equal ones are ordered by client id, then by instance id."""

    def key(each: Instance) -> tuple[float, str, bytes]:
        latency_ms = each.summary.latency_ms
        return (1.0 if latency_ms is None else -latency_ms, each.client.text("client_id"), each.instance_id)

    return sorted(instances, key=key)
