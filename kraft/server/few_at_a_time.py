"""A bound for what clients can cause as often as they like: few are told in a window, the others are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraft.world.ports import Clock

TOLD_MAX: Final = 20
"""Told in one window."""
WINDOW_SECONDS: Final = 10.0


class FewAtATime:
    """Of one kind of event."""

    __slots__ = ("_clock", "_told", "_untold", "_window_end")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window_end = 0.0
        self._told = 0
        self._untold = 0

    def take(self) -> int | None:
        """Return how many were not told since the last one that was, or None if this one is not to be told either."""
        now = self._clock.now()
        if now >= self._window_end:
            self._window_end, self._told = now + WINDOW_SECONDS, 0
        if self._told >= TOLD_MAX:
            self._untold += 1
            return None
        self._told += 1
        untold, self._untold = self._untold, 0
        return untold
