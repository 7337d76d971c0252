"""Garbage collection that does not block the event loop, however many partitions a node has.

Python's collector scans all objects of a program in one step, whenever their number has grown by a quarter: 165 ms for
a node of 55,000 partitions, while requests wait. Nearly all of these objects live as long as their partition does, and
are freed without a collector. So objects that survive a long collection are frozen (`gc.freeze`), and later collections
scan only new objects. A frozen object that becomes cyclic garbage is found once as much again has been frozen: memory
is bounded by twice the live size, and full collections become rarer as a node grows.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, Protocol

NEW_MAX: Final = 5000
"""Limit of new objects before a collection. A request of 1,000 partitions creates as many, which end with it. Python's
limit of 700 would scan them in the midst of the request, for a third of its time."""
OLDEST: Final = 2
"""The generation whose collection scans every object that is not frozen."""
SECONDS_MAX: Final = 0.005
"""The longest duration of a collection. If one takes longer, the surviving objects are frozen."""
GROWTH_MAX: Final = 2.0
"""The largest number of frozen objects, as a multiple of the objects after the last collection of all. Beyond it, all
objects are collected again."""


class Collector(Protocol):
    """The part of the module `gc` that is used."""

    callbacks: list[Callable[[Literal["start", "stop"], dict[str, int]], object]]

    def freeze(self) -> None: ...
    def unfreeze(self) -> None: ...
    def get_freeze_count(self) -> int: ...
    def set_threshold(self, threshold0: int, /) -> None: ...
    def get_objects(self, generation: int) -> list[Any]: ...
    def enable(self) -> None: ...
    def disable(self) -> None: ...


class Heap:
    """Follows the collections of this process. `seconds` is a monotonic clock."""

    def __init__(self, collector: Collector = gc, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._collector = collector
        self._seconds = seconds
        self._begun = 0.0
        self._is_everything = False
        """Whether no object is frozen: the next collection covers all objects."""
        self._alive = 0
        """The number of objects after the last collection of all objects."""
        self._aside = 0
        """The number of frozen objects, at most. An exact count takes as long as a collection, so it is made only when
        needed."""

    def begin(self) -> None:
        """Freeze all objects that exist after the start, and enable collections, which were off until now."""
        self._collector.freeze()
        self._alive = self._aside = self._collector.get_freeze_count()
        self._collector.callbacks.append(self.follow)
        self._collector.set_threshold(NEW_MAX)
        self._collector.enable()

    @contextmanager
    def growing(self) -> Iterator[None]:
        """Disable collections in the block, which imports modules that stay loaded. Then freeze all objects."""
        self._collector.disable()
        try:
            yield
        finally:
            self._collector.freeze()
            self._alive = self._aside = self._collector.get_freeze_count()
            self._is_everything = False
            self._collector.enable()

    def follow(self, phase: Literal["start", "stop"], info: Mapping[str, int]) -> None:
        """Callback of the collector at the start ("start") and end ("stop") of a collection."""
        if info["generation"] != OLDEST:
            return
        if phase == "start":
            self._begun = self._seconds()
        elif self._is_everything or self._seconds() - self._begun > SECONDS_MAX:
            self._set_aside()

    def _set_aside(self) -> None:
        found = len(self._collector.get_objects(OLDEST))
        self._collector.freeze()
        if self._is_everything:
            self._alive = self._aside = found
            self._is_everything = False
            return
        self._aside += found
        if self._aside > GROWTH_MAX * self._alive:
            self._aside = self._collector.get_freeze_count()  # Many may have ended since, without a collector.
        if self._aside > GROWTH_MAX * self._alive:
            self._collector.unfreeze()
            self._is_everything = True
