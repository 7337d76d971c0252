"""Logs a repeated event at growing intervals. Each logged one has the number of repetitions that were not logged.

It is for work that is retried several times a second. On a full disk, the log lines of each retry would fill the space
that is freed.
"""

from __future__ import annotations

from typing import Any, Final

from kraft.common.logging import Logger
from kraft.common.rate_limiter import MonotonicClock

FIRST_SECONDS: Final = 1.0
SECONDS_MAX: Final = 60.0
SERIES_MAX: Final = 64
"""Limit of the series of repetitions in memory. Beyond it, the oldest series is dropped."""


class _Series:
    __slots__ = ("due", "interval", "last", "left_out")

    def __init__(self, now: float, left_out: int) -> None:
        self.interval = FIRST_SECONDS
        self.due = now + FIRST_SECONDS
        self.last = now
        self.left_out = left_out


class Repetitions:
    """Decides which repetitions of an event are logged. The intervals start again at the shortest if the event was not
    repeated for SECONDS_MAX."""

    __slots__ = ("_clock", "_series")

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._series: dict[str, _Series] = {}

    def take(self, about: str) -> int | None:
        """Decide about one more repetition. `about` identifies the series. Returns None if it is not logged, else the
        number of repetitions that were not logged since the last logged one."""
        now = self._clock.now()
        series = self._series.get(about)
        if series is None or now > series.last + SECONDS_MAX:
            series = self._begin(about, now, 0 if series is None else series.left_out)
        elif now < series.due:
            series.last = now
            series.left_out += 1
            return None
        else:
            series.interval = min(2 * series.interval, SECONDS_MAX)
            series.last, series.due = now, now + series.interval
        left_out, series.left_out = series.left_out, 0
        return left_out

    def _begin(self, about: str, now: float, left_out: int) -> _Series:
        self._series.pop(about, None)
        if len(self._series) == SERIES_MAX:
            del self._series[next(iter(self._series))]
        series = self._series[about] = _Series(now, left_out)
        return series


class BackedOffLog:
    """A log for repeated events. `about` distinguishes series of the same event: what failed, and why. The field
    `left_out` has the number of repetitions that were not logged."""

    __slots__ = ("_log", "_repetitions")

    def __init__(self, log: Logger, clock: MonotonicClock) -> None:
        self._log = log
        self._repetitions = Repetitions(clock)

    def info(self, event: str, about: str, **fields: Any) -> None:
        if self._is_due(event, about, fields):
            self._log.info(event, **fields)

    def warning(self, event: str, about: str, **fields: Any) -> None:
        if self._is_due(event, about, fields):
            self._log.warning(event, **fields)

    def error(self, event: str, about: str, **fields: Any) -> None:
        if self._is_due(event, about, fields):
            self._log.error(event, **fields)

    def _is_due(self, event: str, about: str, fields: dict[str, Any]) -> bool:
        left_out = self._repetitions.take(f"{event}: {about}")
        if left_out:
            fields["left_out"] = left_out
        return left_out is not None
