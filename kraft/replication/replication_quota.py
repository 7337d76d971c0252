"""The limit of replication's bytes a second (KIP-73): a budget that fills at the rate, up to one second's worth. Pure.

A transfer that has begun is let through whole. What it took beyond the budget is waited for before the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

UNLIMITED: Final = 2**63 - 1


class ReplicationQuota:
    """`rate` gives the bytes a second, as configured now."""

    __slots__ = ("_at", "_budget", "_now", "_rate")

    def __init__(self, rate: Callable[[], int], now: Callable[[], float]) -> None:
        self._rate = rate
        self._now = now
        self._at = now()
        self._budget = 0.0

    @property
    def is_limited(self) -> bool:
        return self._rate() < UNLIMITED

    def seconds_to_wait(self) -> float:
        """The seconds until something may be transferred; 0 when it may be now."""
        rate = self._rate()
        if rate >= UNLIMITED:
            return 0.0
        now = self._now()
        self._budget = min(float(rate), self._budget + (now - self._at) * rate)
        self._at = now
        return 0.0 if self._budget > 0 else (1 - self._budget) / max(rate, 1)

    def piece(self, size: int) -> int:
        """At most a second's worth of `size`, so that what is transferred at a time does not exceed the rate by
        much."""
        return max(1, min(size, self._rate()))

    def took(self, size: int) -> None:
        """`size` bytes were transferred."""
        if self._rate() < UNLIMITED:
            self._budget -= size
