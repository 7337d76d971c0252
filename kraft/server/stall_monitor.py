"""Watches the node's event loop: while one step runs, nobody else is served.

Every step of 1 ms or more is counted in a histogram, and the longest one of each task is kept, both for /metrics. A
step of 50 ms or more is also a log event, one in ten seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.logging import RateLimitedLog
from kraft.common.metrics import Histogram
from kraft.world.ports import LONG_STEP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraft.common.logging import Logger
    from kraft.common.metrics import MetricsRegistry
    from kraft.world.ports import Clock

STEP_BOUNDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
TOLD_SECONDS_MIN = 0.05
TOLD_PERIOD_SECONDS = 10.0
TASKS_MAX = 200
"""Tasks are named by functions of the program, of which there are fewer."""


class StallMonitor:
    """Implements `kraft.world.ports.StepWatcher`. `last_request` describes the request that was dispatched last, in
    words for the log: most often it is the one that took so long."""

    def __init__(self, clock: Clock, log: Logger, last_request: Callable[[], str | None]) -> None:
        self._told = RateLimitedLog(log, clock, events_max=1, period_seconds=TOLD_PERIOD_SECONDS)
        self._last_request = last_request
        self.steps = Histogram(STEP_BOUNDS)
        self.longest: dict[str, float] = {}
        """Seconds of the longest step since the start, by task."""

    def long_step(self, task: str, seconds: float) -> None:
        self.steps.observe(seconds)
        if task in self.longest or len(self.longest) < TASKS_MAX:
            self.longest[task] = max(self.longest.get(task, 0.0), seconds)
        if seconds >= TOLD_SECONDS_MIN:
            fields = {} if (request := self._last_request()) is None else {"last_request": request}
            self._told.warning("event loop held up", task=task, ms=round(seconds * 1000), **fields)

    def register(self, registry: MetricsRegistry) -> None:
        """Show the histogram and the longest steps in /metrics."""
        registry.take_histogram(
            "kraft_loop_step_seconds",
            f"Steps of the event loop of {LONG_STEP_SECONDS * 1000:g} ms or more. Nobody else is served during a step.",
            self.steps,
            STEP_BOUNDS,
        )
        registry.gauges(
            "kraft_loop_longest_step_seconds",
            "The longest step of the event loop since the start, by task.",
            ("task",),
            lambda: [((task,), seconds) for task, seconds in sorted(self.longest.items())],
        )
