"""Worker threads, bounded per node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RealThreads:
    """Implements `kraft.world.ports.Threads` over trio's thread cache. At most `limit` functions run at once; more
    wait their turn, first come first served."""

    __slots__ = ("_limiter",)

    def __init__(self, limit: int) -> None:
        self._limiter = trio.CapacityLimiter(limit)

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        return await trio.to_thread.run_sync(function, *args, limiter=self._limiter)
