"""Event journals on a simulated disk."""

from __future__ import annotations


class StoppedClock:
    """A wall clock that stands."""

    def wall_ms(self) -> int:
        return 1_000
