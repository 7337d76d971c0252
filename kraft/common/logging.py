"""Log events: a name and fields, passed to the node's sink as a mapping. Text is rendered only on output.

A node owns one `Loggers`; parts get a `Logger` from it. A level check is one comparison, so debug events are cheap. The
sink (`World.log_sink`) belongs to the world: the simulator keeps the mappings, the command line renders them
(`render_console`, `render_json`). Every event has the key `event`; those of a Logger also `level`, `logger` and
`time_ms`. Events written directly to a sink may lack these: a renderer treats them as information.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kraft.common.rate_limiter import MonotonicClock, RateLimiter

LogLine = Mapping[str, Any]
Sink = Callable[[LogLine], None]

DEBUG: Final = 10
INFO: Final = 20
WARNING: Final = 30
ERROR: Final = 40

LEVELS: Final = {"debug": DEBUG, "info": INFO, "warning": WARNING, "error": ERROR}
_NAMES: Final = {value: name for name, value in LEVELS.items()}
_FROM_KAFKA: Final = {"TRACE": DEBUG, "DEBUG": DEBUG, "INFO": INFO, "WARN": WARNING, "ERROR": ERROR, "FATAL": ERROR}
_TO_KAFKA: Final = {DEBUG: "DEBUG", INFO: "INFO", WARNING: "WARN", ERROR: "ERROR"}


class WallClock(Protocol):
    def wall_ms(self) -> int: ...


class _Threshold:
    """The level of one logger, shared by all loggers of its name."""

    __slots__ = ("inherited", "level")

    def __init__(self, level: int) -> None:
        self.level = level
        self.inherited = True


class Logger:
    """Writes events of one part of a node, with fields common to all of them. Cheap to create, but keep it."""

    __slots__ = ("_clock", "_fields", "_sink", "_threshold", "name")

    def __init__(
        self, name: str, sink: Sink, clock: WallClock, threshold: _Threshold, fields: Mapping[str, Any]
    ) -> None:
        self.name = name
        self._sink = sink
        self._clock = clock
        self._threshold = threshold
        self._fields = fields

    def bind(self, **fields: Any) -> Logger:
        """A logger whose events carry `fields` too."""
        return Logger(self.name, self._sink, self._clock, self._threshold, {**self._fields, **fields})

    def enabled(self, level: int) -> bool:
        return level >= self._threshold.level

    def debug(self, event: str, **fields: Any) -> None:
        if self._threshold.level <= DEBUG:
            self._write(DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        if self._threshold.level <= INFO:
            self._write(INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        if self._threshold.level <= WARNING:
            self._write(WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write(ERROR, event, fields)

    def _write(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        self._sink(
            {
                "time_ms": self._clock.wall_ms(),
                "level": _NAMES[level],
                "logger": self.name,
                "event": event,
                **self._fields,
                **fields,
            }
        )


class RateLimitedLog:
    """Warnings that a peer can cause without limit: in each period, only the first `events_max` are written.

    The next written warning has the number of those left out in the field `left_out`. `tell_left_out` writes that
    number by itself; call it periodically, so that the end of a flood is logged, too.
    """

    __slots__ = ("_few", "_log")

    def __init__(self, log: Logger, clock: MonotonicClock, *, events_max: int, period_seconds: float) -> None:
        self._log = log
        self._few = RateLimiter(clock, events_max, period_seconds)

    def warning(self, event: str, **fields: Any) -> None:
        if not self._log.enabled(WARNING):
            return
        left_out = self._few.take()
        if left_out is None:
            return
        if left_out:
            fields["left_out"] = left_out
        self._log.warning(event, **fields)

    def tell_left_out(self, event: str, **fields: Any) -> None:
        """Write `event` with the number of warnings left out, if there are any and their period is over."""
        left_out = self._few.left_out_of_the_last()
        if left_out:
            self._log.warning(event, left_out=left_out, **fields)


class Loggers:
    """The loggers of one node and their levels, which the BROKER_LOGGER resource reads and sets. Dotted names
    inherit: `raft` gives `raft.driver` its level, `root` gives all."""

    def __init__(self, sink: Sink, clock: WallClock, level: str = "info", **fields: Any) -> None:
        self._sink = sink
        self._clock = clock
        self._fields = fields
        self._thresholds = {"root": _Threshold(LEVELS[level])}
        self._thresholds["root"].inherited = False

    def get(self, name: str, **fields: Any) -> Logger:
        return Logger(name, self._sink, self._clock, self._threshold(name), {**self._fields, **fields})

    def _threshold(self, name: str) -> _Threshold:
        threshold = self._thresholds.get(name)
        if threshold is None:
            threshold = self._thresholds[name] = _Threshold(self._inherited_level(name))
        return threshold

    def _inherited_level(self, name: str) -> int:
        parent = name
        while "." in parent:
            parent = parent.rpartition(".")[0]
            if parent in self._thresholds:
                return self._thresholds[parent].level
        return self._thresholds["root"].level

    def kafka_levels(self) -> dict[str, str]:
        """Every logger with its level in Kafka's words."""
        return {name: _TO_KAFKA[threshold.level] for name, threshold in sorted(self._thresholds.items())}

    def set_level(self, name: str, kafka_level: str | None) -> None:
        """Set the level of a known logger, or let it inherit again (None). Raises KeyError for an unknown one."""
        threshold = self._thresholds[name]
        threshold.inherited = kafka_level is None
        if kafka_level is not None:
            threshold.level = _FROM_KAFKA[kafka_level]
        for other in sorted(self._thresholds):  # Parents sort before their children.
            if other != "root" and self._thresholds[other].inherited:
                self._thresholds[other].level = self._inherited_level(other)


def render_json(line: LogLine, now_ms: int) -> str:
    """The event as one JSON object, time and level first."""
    import json  # A node that logs for a person never needs it.

    head = {"time": format_time_ms(line.get("time_ms", now_ms)), "level": line.get("level", "info")}
    return json.dumps(
        {**head, **{key: value for key, value in line.items() if key not in ("time_ms", "level")}}, default=str
    )


_COLOURS: Final = {"debug": "\033[2m", "info": "\033[36m", "warning": "\033[33m", "error": "\033[31m"}
_RESET: Final = "\033[0m"


def render_console(line: LogLine, now_ms: int, *, colour: bool = False) -> str:
    """The event as a line for a person: time, level, event, then fields as key=value. Control characters are escaped,
    since clients choose their names."""
    level = _printable(str(line.get("level", "info")))
    time = format_time_ms(line.get("time_ms", now_ms))[11:23]
    shown = [
        f"{_printable(key)}={_field_text(value)}"
        for key, value in line.items()
        if key not in ("time_ms", "level", "event", "logger")
    ]
    logger = f" [{_printable(str(line['logger']))}]" if "logger" in line else ""
    mark = f"{_COLOURS.get(level, '')}{level:<7}{_RESET}" if colour else f"{level:<7}"
    return f"{time} {mark} {_printable(str(line.get('event', '')))}{logger}{' ' if shown else ''}{' '.join(shown)}"


def _field_text(value: Any) -> str:
    text = str(value)
    return repr(text) if not text or any(character in text for character in ' "=') else _printable(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else repr(text)


def level_of(line: LogLine) -> int:
    return LEVELS.get(str(line.get("level", "info")), INFO)


def format_time_ms(time_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds. Computed here, since the datetime module costs time at a start
    (days-from-civil, Howard Hinnant)."""
    seconds, milliseconds = divmod(time_ms, 1000)
    days, second = divmod(seconds, 86_400)
    shifted = days + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (month <= 2)
    time = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{milliseconds:03d}"
    return f"{year:04d}-{month:02d}-{day:02d}T{time}Z"
