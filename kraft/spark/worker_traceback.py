"""Shorten the errors of Spark's Python workers: an error that was raised on purpose is shown as its message only.

Spark shows the traceback of any exception in a Python data source, with the message at its end. A worker with the
environment variable SPARK_HIDE_TRACEBACK sends only the last line. The worker exits after the error, so the variable is
set for that error alone. KRAFT_SPARK_TRACEBACK=1 in the workers' environment keeps the traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from kraft.common.errors import KraftError

KEEP = "KRAFT_SPARK_TRACEBACK"
HIDE = "SPARK_HIDE_TRACEBACK"
"""Read by pyspark.util.handle_worker_exception."""
PACKAGE = "kraft"
PLAIN: frozenset[type[Exception]] = frozenset({ValueError, ConnectionError, TimeoutError})
"""Python's own exception classes that kraft raises with a message for users."""


@contextmanager
def hide_traceback() -> Iterator[None]:
    """Hide the traceback of the block's error if it was raised on purpose and this process is a worker. The error is
    raised again."""
    try:
        yield
    except Exception as problem:
        if is_on_purpose(problem) and is_worker() and not os.environ.get(KEEP):
            os.environ[HIDE] = "1"
        raise


def is_on_purpose(problem: Exception) -> bool:
    """Whether the error's text is meant for a user: a kraft error, a plain error that kraft's code raised, or a file
    that cannot be opened."""
    if isinstance(problem, KraftError):
        return True
    if isinstance(problem, OSError) and problem.errno is not None:
        return problem.filename is not None
    frames = [frame for frame, _ in traceback.walk_tb(problem.__traceback__)]
    return type(problem) in PLAIN and frames[-1].f_globals.get("__name__", "").partition(".")[0] == PACKAGE


def is_worker() -> bool:
    """Whether this process is a Python worker of Spark."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.partition(".")[0] == "pyspark"
