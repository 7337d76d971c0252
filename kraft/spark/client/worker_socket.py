"""The socket between Spark and a Python worker, where it is TCP (Spark's default).

Spark writes a task's program and its first rows in two small pieces. Nagle's algorithm holds the second back until
the first is acknowledged, and a worker's kernel, which has seen the socket used for questions and answers, waits 40
ms with that. Linux acknowledges at once what is read after TCP_QUICKACK was set, until the next answers are sent: so
it is set whenever a task's reader or writer arrives.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from typing import Any


class ForWorkers:
    """What Spark pickles on the driver and unpickles in its workers, once a task."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge_at_once()


def acknowledge_at_once() -> None:
    """On every TCP socket of this process: which of them is Spark's is not told, and for others it changes nothing
    that matters."""
    option = getattr(socket, "TCP_QUICKACK", None)
    if option is None:
        return  # Not Linux.
    for descriptor in descriptors():
        with contextlib.suppress(OSError):  # Closed meanwhile, or no TCP.
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                set_option(descriptor, option)


def descriptors() -> list[int]:
    """All that are open; none where the system does not tell."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc/self/fd")]
    return []


def set_option(descriptor: int, option: int) -> None:
    """Raises OSError."""
    found = socket.socket(fileno=descriptor)
    try:
        found.setsockopt(socket.IPPROTO_TCP, option, 1)
    finally:
        found.detach()
