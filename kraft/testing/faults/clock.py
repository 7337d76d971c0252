"""A node's clock, which fires no deadline while the node is paused. Time passes meanwhile, as for a process stopped by
SIGSTOP: deadlines that have passed fire when the node resumes. The wall clock may differ from the machine's."""

from __future__ import annotations

import math
import time
from types import TracebackType

import trio

from kraft.testing.faults.switchboard import Switchboard
from kraft.world.real.clock import RealClock


class FaultyClock(RealClock):
    """Implements `kraft.world.ports.Clock`."""

    __slots__ = ("_board", "_node", "_open")

    def __init__(self, board: Switchboard, node: int) -> None:
        self._board = board
        self._node = node
        self._open: dict[DeadlineScope, None] = {}

    def wall_ms(self) -> int:
        return super().wall_ms() + self._board.wall_offset_ms(self._node)

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        await self._board.until_runs(self._node)

    async def sleep_until(self, deadline: float) -> None:
        await super().sleep_until(deadline)
        await self._board.until_runs(self._node)

    def move_on_at(self, deadline: float) -> DeadlineScope:  # type: ignore[override]  # trio's scope is final.
        return DeadlineScope(self, deadline)

    def move_on_after(self, seconds: float) -> DeadlineScope:  # type: ignore[override]
        return DeadlineScope(self, self.now() + seconds)

    @property
    def is_stopped(self) -> bool:
        return self._board.is_paused(self._node)

    def follow(self) -> None:
        """Update all deadlines after the node was paused or resumed."""
        for scope in self._open:
            scope.set_deadline()

    def open(self, scope: DeadlineScope) -> None:
        self._open[scope] = None

    def close(self, scope: DeadlineScope) -> None:
        self._open.pop(scope, None)


class DeadlineScope:
    """A cancel scope whose deadline does not fire while its node is paused."""

    __slots__ = ("_clock", "_deadline", "_scope")

    def __init__(self, clock: FaultyClock, deadline: float) -> None:
        self._clock = clock
        self._deadline = deadline
        self._scope = trio.CancelScope()

    def set_deadline(self) -> None:
        if self._clock.is_stopped or self._deadline == math.inf:
            self._scope.deadline = math.inf
        else:
            self._scope.deadline = trio.current_time() + self._deadline - time.monotonic()

    def __enter__(self) -> DeadlineScope:
        self.set_deadline()
        self._clock.open(self)
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._clock.close(self)
        return self._scope.__exit__(kind, error, trace)

    @property
    def cancelled_caught(self) -> bool:
        return self._scope.cancelled_caught

    def cancel(self) -> None:
        self._scope.cancel()
