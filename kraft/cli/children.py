"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
"""Of prctl(2): the signal that a child gets when its parent dies."""


def stop_with_parent(parent: int) -> Callable[[], None] | None:
    """What a child does before it begins, so that it is asked to stop when its parent has died, even by SIGKILL. Only
    Linux has such a thing. The child must be begun by the parent's main thread."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def arrange() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # It was quicker.
            os._exit(1)

    return arrange
