"""The event loop of a simulated node. Steps take no simulated time, so there are no long ones unless a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kraft.world.ports import LONG_STEP_SECONDS, StepWatcher


class SimulatedLoop:
    """Implements `kraft.world.ports.Loop`."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: list[StepWatcher] = []

    @contextmanager
    def watch(self, watcher: StepWatcher) -> Iterator[None]:
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def stall(self, task: str, seconds: float) -> None:
        """Tell the watchers of a step, as if `task` had held up the loop for `seconds`."""
        if seconds >= LONG_STEP_SECONDS:
            for watcher in list(self._watchers):
                watcher.long_step(task, seconds)
