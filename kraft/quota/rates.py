"""Kafka's two ways to measure the use of a quota: a windowed rate and a token bucket. Times are in seconds."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_SECONDS_MIN: Final = 0.001


class WindowedRate:
    """A rate over the last samples of equal length (Kafka's Rate over a SampledStat).

    A sample begins with the first value after the previous sample's end, and covers `sample_seconds`. It counts until
    its last value is older than `samples` times that. With fewer samples the missing time counts as idle, so a client
    that begins with a burst is measured over the whole span.
    """

    __slots__ = ("_sample_seconds", "_samples", "_sum", "_taken")

    def __init__(self, samples: int, sample_seconds: float) -> None:
        self._samples = samples
        self._sample_seconds = sample_seconds
        self._taken: deque[list[float]] = deque()
        """[start, last value at, sum] of each sample, oldest first."""
        self._sum = 0.0

    def record(self, value: float, now: float) -> None:
        """Count `value`. A negative value cancels an earlier one."""
        if not self._taken or now - self._taken[-1][0] >= self._sample_seconds:
            self._taken.append([now, now, 0.0])
        newest = self._taken[-1]
        newest[1] = now
        newest[2] += value
        self._sum += value
        self._drop_old(now)

    def seconds_over(self, limit: float, now: float) -> float:
        """Return the time without use after which the rate is back at `limit` (above 0) per second; 0 if the rate is
        not above the limit."""
        self._drop_old(now)
        if not self._taken:
            return 0.0
        span = now - self._taken[0][0]
        missing = self._samples - 1 - int(span / self._sample_seconds)
        if missing > 0:
            span += missing * self._sample_seconds
        span = max(span, WINDOW_SECONDS_MIN)
        excess = self._sum / span - limit
        return excess / limit * span if excess > 0 else 0.0

    def _drop_old(self, now: float) -> None:
        oldest = now - self._samples * self._sample_seconds
        while self._taken and (self._taken[0][1] <= oldest or len(self._taken) > self._samples + 1):
            self._sum -= self._taken.popleft()[2]
        if not self._taken:
            self._sum = 0.0  # What adding and subtracting has left over.


class TokenBucket:
    """Credits that are refilled at the rate of the limit. The maximum is the limit times `burst_seconds` (KIP-599).

    Use is permitted while the credits are not negative. One use may then take more credits than are left.
    """

    __slots__ = ("_at", "_burst_seconds", "_tokens")

    def __init__(self, limit: float, burst_seconds: float, now: float) -> None:
        self._burst_seconds = burst_seconds
        self._tokens = limit * burst_seconds
        self._at = now

    def take(self, count: float, limit: float, now: float) -> None:
        """Take `count` credits, even if there are fewer."""
        self._refill(limit, now)
        self._tokens -= count

    def seconds_short(self, limit: float, now: float) -> float:
        """Return the time until the credits are back at zero, at `limit` (above 0) per second; 0 if they are not
        negative."""
        self._refill(limit, now)
        return -self._tokens / limit if self._tokens < 0 else 0.0

    def _refill(self, limit: float, now: float) -> None:
        burst = limit * self._burst_seconds
        self._tokens = min(burst, self._tokens + limit * max(now - self._at, 0.0))
        self._at = now
