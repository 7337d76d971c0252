"""What the kernel has said since a moment: /dev/kmsg, which only root may read. There is one for the machine: what
is looked for has to name its device."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

RECORD_BYTES_MAX = 8192


class KernelLog:
    """From its making to `close`. Raises OSError where the log is not ours to read."""

    def __init__(self) -> None:
        self._descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def new_lines(self) -> Iterator[str]:
        """Each once. What the kernel has thrown away meanwhile is left out."""
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
