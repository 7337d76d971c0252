"""The stderr of Spark's JVM and its Python workers: log lines are left out, and the lines of the jobs' own code are
passed on.

The last lines are kept: a JVM that does not start gives its reason only there.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

LINES_KEPT: Final = 50
LOG: Final = re.compile(
    r"^(?:\d\d/\d\d/\d\d \d\d:\d\d:\d\d |\{\"ts\":|%\d\|\d+|WARNING: |SLF4J|OpenJDK |Picked up |:: |Ivy |Caused by: |"
    r"\S*/spark-class: |"
    r"Using Spark's default log4j|Setting default log level|To adjust logging level|Traceback |"
    r"(?:Exception in thread |[a-z]\w*(?:\.\w+)+(?:Exception|Error)\b)|\s|$)"
)
"""A log line of log4j, the JVM, the script that starts it, or librdkafka, or a line of a stack trace."""


class JavaOutput:
    """Reads the lines of a pipe whose writing end, `writer`, is the stderr of the JVM. `tell` is called with each line
    that is not a log line. With `is_whole` it is called with every line."""

    def __init__(self, tell: Callable[[str], None], *, is_whole: bool) -> None:
        self.tell, self.is_whole = tell, is_whole
        self.kept: deque[str] = deque(maxlen=LINES_KEPT)
        self.reader, self.writer = os.pipe()
        self.thread = threading.Thread(target=self.read, name="kraft-java-output", daemon=True)
        self.thread.start()

    def read(self) -> None:
        with os.fdopen(self.reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self.take(line.rstrip("\n"))

    def take(self, line: str) -> None:
        self.kept.append(line)
        if self.is_whole or not LOG.match(line):
            self.tell(line)

    def close_writer(self) -> None:
        """Close this process's copy of the writing end, so that reading ends when the JVM ends."""
        os.close(self.writer)

    @property
    def last(self) -> str:
        """The last lines, which explain why a JVM did not start."""
        return "; ".join(line.strip() for line in list(self.kept)[-3:] if line.strip())
