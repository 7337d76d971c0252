"""The event that a client was throttled by a quota."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

WAIT_MS_MAX: Final = (1 << 31) - 1
"""The longest throttle time that a response can hold."""


class Throttle(NamedTuple):
    """One throttle. `principal` and `client_id` are empty for a throttled connection: its client is not known yet."""

    quota: str
    """The key of the quota, as in `kraft.metadata.quota_keys`."""
    listener: str
    host: str
    seconds: float
    principal: str = ""
    client_id: str = ""


Report = Callable[[Throttle], None]


def ignore(throttle: Throttle) -> None:
    """The report function that does nothing."""
