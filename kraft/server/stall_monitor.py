"""Watches the steps of the node's event loop: while one runs, no other task is served.

Every step of 1 ms or more is counted in a histogram, and the longest step of each task is kept, both for /metrics. A
step of 50 ms or more is also logged, at most once in ten seconds. The loop's idle time is shown under the names of
Kafka's thread pools, since one loop does the work of all of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

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
"""Limit of task names. It is never reached, because tasks are named after functions, and the program has fewer."""
IDLE_WINDOW_SECONDS: Final = 60.0
IDLE_SAMPLE_SECONDS: Final = 2.0
IDLE_SHARES: Final = {
    "kafka_network_socketserver_networkprocessoravgidle_percent": "the network threads",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": "the request handlers",
}


class StallMonitor:
    """Implements `kraft.world.ports.StepWatcher`. `last_request` describes the last dispatched request for the log:
    usually the one that took so long."""

    def __init__(self, clock: Clock, log: Logger, last_request: Callable[[], str | None]) -> None:
        self._told = RateLimitedLog(log, clock, events_max=1, period_seconds=TOLD_PERIOD_SECONDS)
        self._clock = clock
        self._last_request = last_request
        self.idle_seconds = 0.0
        self._idle_samples: deque[tuple[float, float]] = deque([(clock.now(), 0.0)])
        """(time, idle seconds since the start) at each query of the last minute, and at the last query before that."""
        self.steps = Histogram(STEP_BOUNDS)
        self.longest: dict[str, float] = {}
        """Seconds of the longest step since the start, by task."""

    def long_step(self, task: str, seconds: float) -> None:
        self.steps.observe(seconds)
        if task in self.longest or len(self.longest) < TASKS_MAX:
            self.longest[task] = max(self.longest.get(task, 0.0), seconds)
        if seconds >= TOLD_SECONDS_MIN:
            fields = {} if (request := self._last_request()) is None else {"last_request": request}
            self._told.warning("event loop blocked", task=task, ms=round(seconds * 1000), **fields)

    def idle_share(self) -> float:
        """The share of the last minute in which the loop was idle, from 0 to 1. The period begins at the previous call
        if that was earlier."""
        now, samples = self._clock.now(), self._idle_samples
        while len(samples) > 1 and samples[1][0] <= now - IDLE_WINDOW_SECONDS:
            samples.popleft()
        since, before = samples[0]
        if now - samples[-1][0] >= IDLE_SAMPLE_SECONDS:
            samples.append((now, self.idle_seconds))
        return 1.0 if now <= since else min(1.0, (self.idle_seconds - before) / (now - since))

    def register(self, registry: MetricsRegistry) -> None:
        """Register the histogram and the longest steps for /metrics."""
        registry.register_histogram(
            "kraft_loop_step_seconds",
            f"Steps of the event loop of {LONG_STEP_SECONDS * 1000:g} ms or more. No other task runs during a step.",
            self.steps,
            STEP_BOUNDS,
        )
        registry.counters(
            "kraft_loop_idle_seconds_total",
            "How long the event loop had nothing to do.",
            (),
            lambda: [((), self.idle_seconds)],
        )
        for name, whose in IDLE_SHARES.items():
            registry.gauge(
                name,
                f"Share of the last minute in which the event loop had nothing to do, as Kafka reports it for {whose}.",
                self.idle_share,
            )
        registry.gauges(
            "kraft_loop_longest_step_seconds",
            "The longest step of the event loop since the start, by task.",
            ("task",),
            lambda: [((task,), seconds) for task, seconds in sorted(self.longest.items())],
        )
