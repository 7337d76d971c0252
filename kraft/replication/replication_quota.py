"""The replication throttle in bytes per second (KIP-73): a budget that refills at the rate, up to one second's worth.
Pure.

A transfer that has started is never cut. The next one waits until the budget is positive again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

UNLIMITED: Final = 2**63 - 1


class ReplicationQuota:
    """The throttle for one direction. `rate` returns the configured bytes per second."""

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
        """Return the seconds until the next transfer may start; 0 if it may start now."""
        rate = self._rate()
        if rate >= UNLIMITED:
            return 0.0
        now = self._now()
        self._budget = min(float(rate), self._budget + (now - self._at) * rate)
        self._at = now
        return 0.0 if self._budget > 0 else (1 - self._budget) / max(rate, 1)

    def piece(self, size: int) -> int:
        """Return `size`, at most one second's worth, so that one transfer does not exceed the rate by much."""
        return max(1, min(size, self._rate()))

    def took(self, size: int) -> None:
        """Charge `size` transferred bytes to the budget."""
        if self._rate() < UNLIMITED:
            self._budget -= size
