"""Limits the logging of events that a peer can cause without limit: a few in each period are logged, the others
counted."""

from __future__ import annotations

from typing import Protocol


class MonotonicClock(Protocol):
    def now(self) -> float:
        """The time in seconds; never decreases."""


class RateLimiter:
    """A limit for one kind of event: the first `told_max` of each period are logged."""

    __slots__ = ("_clock", "_left_out", "_period_end", "_period_seconds", "_told", "_told_max")

    def __init__(self, clock: MonotonicClock, told_max: int, period_seconds: float) -> None:
        self._clock = clock
        self._told_max = told_max
        self._period_seconds = period_seconds
        self._period_end = 0.0
        self._told = 0
        self._left_out = 0

    def take(self) -> int | None:
        """Decide about one more event. Returns None if it is not logged, else the number of events that were not logged
        since the last logged one."""
        now = self._clock.now()
        if now >= self._period_end:
            self._period_end, self._told = now + self._period_seconds, 0
        if self._told == self._told_max:
            self._left_out += 1
            return None
        self._told += 1
        return self._forget()

    def left_out_of_the_last(self) -> int:
        """Return the number of events that were not logged, and reset it, if the period is over; else 0."""
        return self._forget() if self._clock.now() >= self._period_end else 0

    def _forget(self) -> int:
        left_out, self._left_out = self._left_out, 0
        return left_out
