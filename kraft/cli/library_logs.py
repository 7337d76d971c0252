"""Log records of libraries (uvicorn, asyncio) as events of the node, in its format and at its level."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from kraft.common.logging import LogLine, Sink

_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"), (logging.NOTSET, "debug"))


class LibraryLogs(logging.Handler):
    """Passes each record to `sink`, unless its exception was already logged (`is_told`)."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        if getattr(problem, "is_told", False):
            return
        try:
            self._sink(_line(record))
        except Exception:  # noqa: BLE001  # As in every handler: logging must not fail the caller. A record that cannot be shown goes to stderr.
            self.handleError(record)


def _line(record: logging.LogRecord) -> LogLine:
    level = next(name for least, name in _LEVELS if record.levelno >= least)
    line = {
        "time_ms": int(record.created * 1000),
        "level": level,
        "logger": record.name,
        "event": record.getMessage().strip(),
    }
    if record.exc_info and record.exc_info[1] is not None:
        line["traceback"] = "".join(traceback.format_exception(record.exc_info[1]))
    return line


@contextmanager
def library_logs(sink: Sink) -> Iterator[None]:
    """While active, everything logged in this process as a warning or worse, or at its logger's own level, goes to
    `sink`."""
    handler = LibraryLogs(sink)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
