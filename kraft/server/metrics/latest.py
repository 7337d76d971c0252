"""What takes long to gather, made once for all who ask for it at about the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import trio

T = TypeVar("T")

KEPT_SECONDS: Final = 1.0
"""Two scrapers, or a scraper and the sampler of the history, often ask within so long."""


class Latest(Generic[T]):
    """Gathers one at a time. What `is_large` says of a result to be worth it is told for KEPT_SECONDS more to whoever
    asks; other results are told to nobody else. A failure is told to whoever asked first: the next one gathers anew."""

    __slots__ = ("_gathered", "_is_large", "_lock", "_now")

    def __init__(self, now: Callable[[], float], is_large: Callable[[T], bool]) -> None:
        """`now` is a clock that never goes back."""
        self._now = now
        self._is_large = is_large
        self._lock = trio.Lock()
        self._gathered: tuple[float, T] | None = None

    async def get(self, gather: Callable[[], Awaitable[T]]) -> T:
        """Raises what `gather` raises."""
        async with self._lock:
            if self._gathered is not None and self._now() - self._gathered[0] < KEPT_SECONDS:
                return self._gathered[1]
            self._gathered = None
            found = await gather()
            if self._is_large(found):
                self._gathered = self._now(), found
            return found
