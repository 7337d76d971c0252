"""The kernel's messages since a moment, from /dev/kmsg, which only root may read. The machine has one log for all: a
search must name its device."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

RECORD_BYTES_MAX = 8192


class KernelLog:
    """The messages from its creation to `close`. Raises OSError if the log may not be read."""

    def __init__(self) -> None:
        self._descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def new_lines(self) -> Iterator[str]:
        """Each message once. Messages that the kernel has dropped meanwhile are left out."""
        while True:
            try:
                yield os.read(self._descriptor, RECORD_BYTES_MAX).decode(errors="replace")
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno != errno.EPIPE:
                    raise

    def close(self) -> None:
        os.close(self._descriptor)
