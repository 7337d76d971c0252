"""Measures how long the disks of a node take for syncs, and finds slow ones.

A slow disk that does not fail delays everything that is synced to it, without any error. The syncs of each directory
are timed: those of its logs, its checkpoints and its metadata log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

SLOW_SECONDS: Final = 1.0
"""A sync that takes longer counts as slow. Syncs of a healthy disk take that long only in a burst."""
SLOW_MIN: Final = 3
"""The number of slow syncs within the window from which on a disk counts as slow. A single one may be a burst."""
WINDOW_SECONDS: Final = 300.0
STUCK_SECONDS: Final = 10.0
"""A sync in progress for longer counts as slow before it ends."""
KEPT_MAX: Final = 1_000


class SlowDisk(NamedTuple):
    """A directory whose disk is slow. `seconds` is the longest recent sync; `slow` and `syncs` are counts within the
    window."""

    path: str
    seconds: float
    slow: int
    syncs: int


class MonotonicClock(Protocol):
    def now(self) -> float: ...


class DiskTimes:
    """The durations of recent syncs by directory. Owned by a node's loop."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._done: dict[str, deque[tuple[float, float]]] = {}
        """By directory: when a sync ended, and how long it took."""
        self._under_way: dict[str, list[float]] = {}

    @contextmanager
    def measure(self, path: str) -> Iterator[None]:
        """Time the body as a sync of this directory."""
        begun = self._clock.now()
        running = self._under_way.setdefault(path, [])
        running.append(begun)
        try:
            yield
        finally:
            running.remove(begun)
            now = self._clock.now()
            self._done.setdefault(path, deque(maxlen=KEPT_MAX)).append((now, now - begun))

    def slow(self) -> list[SlowDisk]:
        """The directories whose disks are slow now, by path."""
        now = self._clock.now()
        found = []
        for path in sorted({*self._done, *self._under_way}):
            late = [seconds for ended, seconds in self._done.get(path, ()) if ended > now - WINDOW_SECONDS]
            stuck = [now - begun for begun in self._under_way.get(path, ()) if now - begun > STUCK_SECONDS]
            slow = [seconds for seconds in late if seconds >= SLOW_SECONDS] + stuck
            if len(slow) >= SLOW_MIN or stuck:
                found.append(SlowDisk(path, max(slow), len(slow), len(late) + len(stuck)))
        return found
