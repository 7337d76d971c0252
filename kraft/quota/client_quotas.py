"""Measures clients' use of a node, and computes their throttle times.

As in Kafka, the response is sent immediately with the throttle time (KIP-219), and the connection is muted for that
time. Each broker applies the quotas by itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kraft.common.errors import ApiError
from kraft.metadata.image.client_quotas_image import ClientQuotasImage
from kraft.metadata.quota_keys import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.quota.quota_limits import AddressLimits, QuotaLimits, Share
from kraft.quota.rates import TokenBucket, WindowedRate
from kraft.quota.throttle import WAIT_MS_MAX, Report, Throttle, ignore

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.network.limits import ConnectionLimits
    from kraft.world.ports import Clock

KEPT_MAX: Final = 10_000
"""Limit of measures kept for each quota key. Beyond it, the measure that was unused for the longest is dropped."""
REQUEST_WAIT_SECONDS_MAX: Final = 1.0
"""Longest throttle time of one request by the request quota (KIP-124)."""
HELD_SECONDS_MAX: Final = 20.0
"""Longest delay of the first Produce of a connection whose share is over quota: less than the timeout of clients."""
HELD_BYTES_MAX: Final = 32 << 20
"""The bytes of requests that are delayed by quotas. Beyond it, requests are served immediately, as in Kafka, to limit
memory."""
PERCENT: Final = 100.0

K = TypeVar("K")
M = TypeVar("M")


class _Kept(Generic[K, M]):
    """A bounded cache of measures by share."""

    __slots__ = ("_by_key", "_make")

    def __init__(self, make: Callable[[], M]) -> None:
        self._make = make
        self._by_key: OrderedDict[K, M] = OrderedDict()

    def of(self, key: K) -> M:
        measure = self._by_key.get(key)
        if measure is None:
            measure = self._by_key[key] = self._make()
            if len(self._by_key) > KEPT_MAX:
                self._by_key.popitem(last=False)
        else:
            self._by_key.move_to_end(key)
        return measure

    def known(self, key: K) -> M | None:
        """The measure; None if it is not cached."""
        return self._by_key.get(key)

    def all(self) -> Iterable[M]:
        return self._by_key.values()


class _Use:
    """The rate used by the clients of one `Share`, and the time until which they were last throttled. That time may be
    later than the end of the rate's windows."""

    __slots__ = ("owed_until", "rate")

    def __init__(self, samples: int, window_seconds: int) -> None:
        self.rate = WindowedRate(samples, window_seconds)
        self.owed_until = 0.0


class RateQuota:
    """The measured use and the limits of one quota key that limits a rate."""

    __slots__ = ("_clock", "_limits", "_samples", "_uses", "_window_seconds")

    def __init__(self, limits: QuotaLimits, samples: int, window_seconds: int, clock: Clock) -> None:
        self._limits = limits
        self._samples = samples
        self._window_seconds = window_seconds
        self._clock = clock
        self._uses: _Kept[Share, _Use] = _Kept(lambda: _Use(samples, window_seconds))

    def take_limits(self, limits: QuotaLimits) -> bool:
        """Apply new limits. Use so far counts against them; throttle times under the old ones are cancelled. Returns
        whether there is any limit."""
        self._limits = limits
        for use in self._uses.all():
            use.owed_until = 0.0
        return bool(limits)

    def use(self, user: str, client_id: str, value: float) -> float:
        """Count `value`. Returns the client's throttle time in seconds."""
        found = self._limits.find(user, client_id)
        if found is None:
            return 0.0
        share, limit = found
        use, now = self._uses.of(share), self._clock.now()
        use.rate.record(value, now)
        seconds = use.rate.seconds_over(limit, now)
        if seconds > 0:
            use.owed_until = max(use.owed_until, now + seconds)
        return seconds

    def owed(self, user: str, client_id: str) -> float:
        """The seconds for which the client's share is still throttled, for use on any connection."""
        found = self._limits.find(user, client_id)
        use = None if found is None else self._uses.known(found[0])
        return 0.0 if use is None else max(0.0, use.owed_until - self._clock.now())

    def use_if_within(self, user: str, client_id: str, value: float) -> tuple[float, bool]:
        """Count `value` as `use` does, and return whether the request is granted. While the client is throttled it is
        not, and nothing is counted. A request for more than the quota ever allows is granted once the client is no
        longer throttled."""
        found = self._limits.find(user, client_id)
        if found is None:
            return 0.0, True
        share, limit = found
        rate, now = self._uses.of(share).rate, self._clock.now()
        owed = rate.seconds_over(limit, now)
        rate.record(value, now)
        seconds = rate.seconds_over(limit, now)
        if seconds <= 0 or (owed <= 0 and value > self._largest(limit)):
            return seconds, True
        rate.record(-value, now)
        return seconds, False

    def largest(self, user: str, client_id: str) -> float | None:
        """The largest use that causes no throttling after no earlier use; None without a limit."""
        found = self._limits.find(user, client_id)
        return None if found is None else self._largest(found[1])

    def _largest(self, limit: float) -> float:
        return limit * (self._samples - 1) * self._window_seconds


class ClientQuotas:
    """The quotas of a broker's clients. Owned by the node's loop."""

    def __init__(self, config: NodeConfig, clock: Clock, report: Report = ignore) -> None:
        """`report` is called for each throttled client."""
        samples, seconds = config.integer("quota.window.num"), config.integer("quota.window.size.seconds")
        nothing = ClientQuotasImage()

        def rate_quota(key: str) -> RateQuota:
            return RateQuota(QuotaLimits(nothing, key), samples, seconds, clock)

        self._producer = rate_quota(PRODUCER_BYTE_RATE)
        self._consumer = rate_quota(CONSUMER_BYTE_RATE)
        self._time = rate_quota(REQUEST_PERCENTAGE)
        self.report = report
        self.connections = ConnectionQuota(samples, seconds, clock, report)
        self.limits_producers = self.limits_consumers = self.limits_time = False
        """Whether there is a quota for producers. Without one nothing is measured."""
        self._image = nothing
        self.held_bytes = 0
        """Bytes of requests delayed by quotas."""

    def take_image(self, image: ClientQuotasImage) -> None:
        if image is self._image:
            return
        self._image = image
        self.limits_producers = self._producer.take_limits(QuotaLimits(image, PRODUCER_BYTE_RATE))
        self.limits_consumers = self._consumer.take_limits(QuotaLimits(image, CONSUMER_BYTE_RATE))
        self.limits_time = self._time.take_limits(QuotaLimits(image, REQUEST_PERCENTAGE))
        self.connections.take_limits(AddressLimits(image))

    def produced(self, user: str, client_id: str, size: int) -> float:
        """Count the bytes of a Produce. Returns the client's throttle time in seconds."""
        return self._producer.use(user, client_id, size)

    def producer_owes(self, user: str, client_id: str, size: int) -> float:
        """The seconds by which a connection's first Produce, of `size` bytes, is delayed: a new connection inherits the
        throttle time of its share."""
        if self.held_bytes + size > HELD_BYTES_MAX:
            return 0.0
        return min(self._producer.owed(user, client_id), HELD_SECONDS_MAX)

    def fetched(self, user: str, client_id: str, size: int) -> tuple[float, bool]:
        """Count the bytes of a Fetch response. Returns the client's throttle time in seconds, and whether the response
        includes its records. Without them nothing is counted."""
        return self._consumer.use_if_within(user, client_id, size)

    def fetch_bytes_max(self, user: str, client_id: str) -> int | None:
        """The largest response that the quota ever allows without throttling; None without a limit."""
        largest = self._consumer.largest(user, client_id)
        return None if largest is None else int(largest)

    def use_time(self, user: str, client_id: str, seconds: float) -> float:
        """Count time on the event loop. Returns the client's throttle time in seconds."""
        return min(self._time.use(user, client_id, seconds * PERCENT), REQUEST_WAIT_SECONDS_MAX)


class ConnectionQuota:
    """Limits the rate of connections of an address, and of all connections (KIP-612)."""

    __slots__ = ("_all", "_by_listener", "_clock", "_limits", "_rates", "_report", "_samples", "_window_seconds")

    def __init__(self, samples: int, window_seconds: int, clock: Clock, report: Report = ignore) -> None:
        self._report = report
        self._limits = AddressLimits(ClientQuotasImage())
        self._clock = clock
        self._samples, self._window_seconds = samples, window_seconds
        self._all = WindowedRate(samples, window_seconds)
        self._by_listener: dict[str, WindowedRate] = {}
        self._rates: _Kept[str, WindowedRate] = _Kept(lambda: WindowedRate(samples, window_seconds))

    def delay(self, listener: str, limits: ConnectionLimits) -> float:
        """See `kraft.network.limits.ConnectionPace`. The result is at most one window, as in Kafka. A connection to a
        protected listener counts only against the limit of that listener."""
        own = self._by_listener.get(listener)
        if own is None:
            own = self._by_listener[listener] = WindowedRate(self._samples, self._window_seconds)
        seconds = self._seconds(own, limits.listener_creation_rate_max)
        return seconds if limits.is_protected else max(seconds, self._seconds(self._all, limits.creation_rate_max))

    def _seconds(self, rate: WindowedRate, limit: int) -> float:
        now = self._clock.now()
        rate.record(1, now)
        return min(rate.seconds_over(limit, now), self._window_seconds) if limit else float(self._window_seconds)

    def give_back(self, listener: str, limits: ConnectionLimits) -> None:
        """See `kraft.network.limits.ConnectionPace`."""
        now = self._clock.now()
        self._by_listener[listener].record(-1, now)
        if not limits.is_protected:
            self._all.record(-1, now)

    def take_limits(self, limits: AddressLimits) -> None:
        self._limits = limits

    def connect(self, address: str, listener: str) -> float:
        """See `kraft.network.limits.ConnectionPace`."""
        limit = self._limits.find(address) if self._limits else None
        if limit is None:
            return 0.0
        rate, now = self._rates.of(address), self._clock.now()
        rate.record(1, now)
        seconds = rate.seconds_over(limit, now)
        if seconds > 0:
            rate.record(-1, now)
            self._report(Throttle(CONNECTION_CREATION_RATE, listener, address, seconds))
        return seconds


def connection_quota(config: NodeConfig, clock: Clock) -> ConnectionQuota:
    """The quota for listeners of a controller, where addresses have no quotas."""
    return ConnectionQuota(config.integer("quota.window.num"), config.integer("quota.window.size.seconds"), clock)


class MutationQuotas:
    """Limits the partitions that clients create and delete, on the active controller (KIP-599)."""

    def __init__(self, config: NodeConfig, clock: Clock, report: Report = ignore) -> None:
        """`report` is called for each throttled client."""
        self.report = report
        self._clock = clock
        self._burst_seconds = config.integer("controller.quota.window.num") * config.integer(
            "controller.quota.window.size.seconds"
        )
        self._image = ClientQuotasImage()
        self._limits = QuotaLimits(self._image, CONTROLLER_MUTATION_RATE)
        self._buckets: OrderedDict[Share, TokenBucket] = OrderedDict()

    def take_image(self, image: ClientQuotasImage) -> None:
        if image is not self._image:
            self._image = image
            self._limits = QuotaLimits(image, CONTROLLER_MUTATION_RATE)

    def of_request(self, user: str, client_id: str, *, is_strict: bool) -> MutationCharge:
        """The charge of one request. A strict request is rejected while no credits are left; any other is carried out,
        and its client is throttled."""
        found = self._limits.find(user, client_id) if self._limits else None
        if found is None:
            return MutationCharge(None, 0.0, self._clock, is_strict=is_strict)
        share, limit = found
        bucket = self._buckets.get(share)
        if bucket is None:
            bucket = self._buckets[share] = TokenBucket(limit, self._burst_seconds, self._clock.now())
            if len(self._buckets) > KEPT_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(share)
        return MutationCharge(bucket, limit, self._clock, is_strict=is_strict)


class MutationCharge:
    """One request's charge of its client's quota."""

    __slots__ = ("_bucket", "_clock", "_is_strict", "_limit", "_wait")

    def __init__(self, bucket: TokenBucket | None, limit: float, clock: Clock, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._limit = limit
        self._clock = clock
        self._is_strict = is_strict
        self._wait = 0.0

    def charge(self, partitions: int) -> None:
        """Count partitions that are created or deleted. Raises ApiError THROTTLING_QUOTA_EXCEEDED, and counts nothing,
        if the request is strict and no credits are left."""
        if self._bucket is None:
            return
        now = self._clock.now()
        short = self._bucket.seconds_short(self._limit, now)
        if self._is_strict and short > 0:
            self._wait = max(self._wait, short)
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message_of(ErrorCode.THROTTLING_QUOTA_EXCEEDED))
        self._bucket.take(partitions, self._limit, now)
        if not self._is_strict:
            self._wait = max(self._wait, self._bucket.seconds_short(self._limit, now))

    @property
    def wait_ms(self) -> int:
        """The client's throttle time in ms."""
        return round(min(self._wait * 1000, WAIT_MS_MAX))
