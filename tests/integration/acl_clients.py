"""Clients with and without permissions."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_MAX = 60


def until(condition: Callable[[], bool]) -> None:
    """Nodes learn of entries one after the other."""
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
