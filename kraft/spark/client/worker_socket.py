"""Reduce the latency of the socket between Spark and a Python worker, if it is TCP (Spark's default).

Spark writes a task's program and its first rows in two small pieces. Nagle's algorithm holds the second back until the
first is acknowledged. The worker's kernel delays that acknowledgement by 40 ms, because the socket was used for
requests and responses. After TCP_QUICKACK is set, Linux acknowledges immediately until the next response is sent. So
the option is set whenever a task's reader or writer arrives.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from typing import Any


class ForWorkers:
    """Base class of objects that Spark pickles on the driver and unpickles in its workers, once per task."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge_at_once()


def acknowledge_at_once() -> None:
    """Set TCP_QUICKACK on every TCP socket of this process. Spark's socket cannot be identified, and the option does no
    harm to other sockets."""
    option = getattr(socket, "TCP_QUICKACK", None)
    if option is None:
        return  # Not Linux.
    for descriptor in descriptors():
        with contextlib.suppress(OSError):  # Closed meanwhile, or no TCP.
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                set_option(descriptor, option)


def descriptors() -> list[int]:
    """Return all open file descriptors; none if the system does not list them."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc/self/fd")]
    return []


def set_option(descriptor: int, option: int) -> None:
    """Set a TCP option on a socket. Raises OSError."""
    found = socket.socket(fileno=descriptor)
    try:
        found.setsockopt(socket.IPPROTO_TCP, option, 1)
    finally:
        found.detach()
