"""The resource usage of the process, under the names of Prometheus' client libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kraft.common.metrics import LabelValues, MetricsRegistry
from kraft.world.ports import ProcessUsage

if TYPE_CHECKING:
    from kraft.world.ports import World

Series = list[tuple[LabelValues, float]]
GAUGES: Final[dict[str, tuple[str, Callable[[ProcessUsage], float]]]] = {
    "process_resident_memory_bytes": ("Memory that is there, not swapped.", lambda usage: usage.resident_bytes),
    "process_open_fds": ("Open file descriptors.", lambda usage: usage.open_files),
    "process_max_fds": ("Descriptors that may be open.", lambda usage: usage.open_files_max),
    "process_start_time_seconds": ("When the process began, since 1970.", lambda usage: usage.started_at),
}

AGE_SECONDS_MAX: Final = 0.5
"""How long a reading of the usage is reused. Each reading reads files and lists the open descriptors."""


class _Usage:
    """The usage of the process, read once for all series of a scrape."""

    __slots__ = ("_asked_at", "_found", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._found: ProcessUsage | None = None
        self._asked_at = float("-inf")

    def newest(self) -> ProcessUsage | None:
        now = self._world.clock.now()
        if now - self._asked_at > AGE_SECONDS_MAX:
            self._found, self._asked_at = self._world.process_usage(), now
        return self._found


def register_process(registry: MetricsRegistry, world: World) -> None:
    """Register the series; none if the world cannot read the usage."""
    usage = _Usage(world)

    def series(read: Callable[[ProcessUsage], float]) -> Callable[[], Series]:
        def told() -> Series:
            newest = usage.newest()
            return [] if newest is None else [((), read(newest))]

        return told

    registry.counters(
        "process_cpu_seconds_total", "Processor time of all threads.", (), series(lambda usage: usage.cpu_seconds)
    )
    for name, (help_text, read) in GAUGES.items():
        registry.gauges(name, help_text, (), series(read))
