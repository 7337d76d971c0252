"""A client that had to wait for a quota, as it is told to who keeps account of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

WAIT_MS_MAX: Final = (1 << 31) - 1
"""The longest wait that an answer can tell."""


class Throttle(NamedTuple):
    """One wait. `principal` and `client_id` are empty where a connection came too early: nobody has said yet who
    connects."""

    quota: str
    """The key of the quota, as in `kraft.metadata.quota_keys`."""
    listener: str
    host: str
    seconds: float
    principal: str = ""
    client_id: str = ""


Report = Callable[[Throttle], None]


def ignore(throttle: Throttle) -> None:
    """For quotas of which nobody wants to hear."""
