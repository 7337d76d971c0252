"""The machine's clocks. `now` reads CLOCK_MONOTONIC, of which trio's own clock is a shifted copy; deadlines are
translated to trio's when a wait begins."""

from __future__ import annotations

import math
import time

import trio


class RealClock:
    """Implements `kraft.world.ports.Clock`."""

    __slots__ = ()

    now = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(max(0.0, seconds))

    async def sleep_until(self, deadline: float) -> None:
        if deadline == math.inf:
            await trio.sleep_forever()
        await trio.sleep(max(0.0, deadline - time.monotonic()))
        if (rest := deadline - time.monotonic()) > 0:  # The two clocks round differently by nanoseconds.
            await trio.sleep(rest + 1e-6)

    def move_on_at(self, deadline: float) -> trio.CancelScope:
        if deadline == math.inf:
            return trio.CancelScope()
        return trio.CancelScope(deadline=trio.current_time() + deadline - time.monotonic())

    def move_on_after(self, seconds: float) -> trio.CancelScope:
        return trio.CancelScope(deadline=trio.current_time() + seconds)
