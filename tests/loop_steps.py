"""How long the steps of an event loop are, for tests: while one step runs, the node serves nobody else.

On a busy machine a short step may take long by the wall clock, so the helper counts the processor time of the loop's
own thread. What the loop waits for (a disk, a lock that another thread holds) is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kraft.world.real.loop import RealLoop


class LoopSteps:
    """The long steps (1 ms or more) since the helper was entered."""

    def __init__(self) -> None:
        self.longest_task: str | None = None
        self.longest_seconds = 0.0
        self.idle_seconds = 0.0

    def long_step(self, task: str, seconds: float) -> None:
        if seconds > self.longest_seconds:
            self.longest_task, self.longest_seconds = task, seconds

    def longest_since(self) -> tuple[str | None, float]:
        """Task and processor seconds of the longest step since the last call, or since the start; starts again."""
        longest = self.longest_task, self.longest_seconds
        self.longest_task, self.longest_seconds = None, 0.0
        return longest


@contextmanager
def loop_steps() -> Iterator[LoopSteps]:
    """Measure the steps of the trio loop that runs now. Long steps of the body's own task count too."""
    steps = LoopSteps()
    with RealLoop(time.thread_time).watch(steps):
        yield steps
