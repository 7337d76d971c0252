"""Child processes that stop when their parent ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
"""The option of prctl(2) that sets the signal a child gets when its parent dies."""


def stop_with_parent(parent: int) -> Callable[[], None] | None:
    """The function that a child calls before it starts, so that the kernel signals it when its parent dies, even by
    SIGKILL. Linux only. The parent's main thread must start the child."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def arrange() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # It was quicker.
            os._exit(1)

    return arrange
