"""Shares a result that takes long to gather among requests at about the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import trio

T = TypeVar("T")

KEPT_SECONDS: Final = 1.0
"""How long a large result is reused. Two scrapers, or a scraper and the history's sampler, often read it within this
time."""


class Latest(Generic[T]):
    """Gathers one result at a time. A large result, by `is_large`, is reused for KEPT_SECONDS; others are not reused. A
    failure is raised only to the first caller: the next one gathers again."""

    __slots__ = ("_gathered", "_is_large", "_lock", "_now")

    def __init__(self, now: Callable[[], float], is_large: Callable[[T], bool]) -> None:
        """`now` is a monotonic clock."""
        self._now = now
        self._is_large = is_large
        self._lock = trio.Lock()
        self._gathered: tuple[float, T] | None = None

    async def get(self, gather: Callable[[], Awaitable[T]]) -> T:
        """The result of `gather`, or a recent one. Raises what `gather` raises."""
        async with self._lock:
            if self._gathered is not None and self._now() - self._gathered[0] < KEPT_SECONDS:
                return self._gathered[1]
            self._gathered = None
            found = await gather()
            if self._is_large(found):
                self._gathered = self._now(), found
            return found
