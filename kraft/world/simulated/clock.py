"""A node's own clock, derived from universal time. It may start skewed, run fast or slow, or stand still, and its wall
clock may jump."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import TracebackType

import trio

from kraft.world.simulated.node import Node, Parking
from kraft.world.simulated.time import Event

EPOCH_MS = 1_767_225_600_000  # 2026-01-01, the wall time at which every simulation begins.
STEP_SECONDS = 1e-6  # How much later to look again when rounding made an alarm ring early.


class Alarm:
    """An action due at a time of the node's clock."""

    __slots__ = ("action", "clock", "deadline", "event")

    def __init__(self, clock: SimulatedClock, deadline: float, action: Callable[[], None]) -> None:
        self.clock = clock
        self.deadline = deadline
        self.action = action
        self.event: Event | None = None

    def ring(self) -> None:
        self.clock.ring(self)


class SimulatedClock:
    """Implements `kraft.world.ports.Clock`. At speed 0 it stands still."""

    __slots__ = ("_alarms", "_at", "_node", "_origin", "_speed", "_wall_origin", "told", "wall_skew_ms")

    def __init__(self, node: Node, *, started: float, speed: float = 1.0, wall_skew_ms: int = 0) -> None:
        """`started` is the value of `now` at this moment."""
        self._node = node
        self._at = node.time.now  # Universal time at which `now` was `_origin`.
        self._origin = started
        self._speed = speed
        self._wall_origin = started - node.time.now  # `now` at the moment when every simulation begins.
        self.wall_skew_ms = wall_skew_ms
        self.told = 0  # How often the node read the clock.
        self._alarms: dict[Alarm, None] = {}
        node.on_death(self._silence)

    def _read(self) -> float:
        return self._origin + (self._node.time.now - self._at) * self._speed

    def now(self) -> float:
        node = self._node
        node.enter("now")
        self.told += 1
        return self._origin + (node.time.now - self._at) * self._speed

    def wall_ms(self) -> int:
        self._node.enter("wall")
        self.told += 1
        return self.read_wall_ms()

    def read_wall_ms(self) -> int:
        """Return the wall clock's time with which the disk stamps files. This is no port call and is not traced."""
        return EPOCH_MS + self.wall_skew_ms + int((self._read() - self._wall_origin) * 1000)

    def set_speed(self, speed: float) -> None:
        """Let the clock advance by `speed` seconds per universal second from now on. Alarms are moved accordingly."""
        self._origin, self._at, self._speed = self._read(), self._node.time.now, speed
        for alarm in self._alarms:
            self._arm(alarm)

    @property
    def speed(self) -> float:
        return self._speed

    def set_alarm(self, deadline: float, action: Callable[[], None]) -> Alarm:
        alarm = Alarm(self, deadline, action)
        self._alarms[alarm] = None
        if self._speed > 0 and deadline < math.inf:
            alarm.event = self._node.time.call_at(self._at + (deadline - self._origin) / self._speed, alarm.ring)
        return alarm

    def drop_alarm(self, alarm: Alarm) -> None:
        self._alarms.pop(alarm, None)
        event = alarm.event
        if event is not None:
            self._node.time.cancel(event)
            alarm.event = None

    def _arm(self, alarm: Alarm) -> None:
        if alarm.event:
            self._node.time.cancel(alarm.event)
            alarm.event = None
        if self._speed > 0 and alarm.deadline < math.inf:
            alarm.event = self._node.time.call_at(self._at + (alarm.deadline - self._origin) / self._speed, alarm.ring)

    def ring(self, alarm: Alarm) -> None:
        """Run the alarm's action if it is due; set it again if it is not."""
        if self._read() < alarm.deadline:
            alarm.event = self._node.time.call_after(STEP_SECONDS, alarm.ring)
            return
        alarm.event = None
        del self._alarms[alarm]
        self._node.wake(alarm.action)

    def _silence(self) -> None:
        for alarm in list(self._alarms):
            self.drop_alarm(alarm)

    async def sleep(self, seconds: float) -> None:
        self._node.enter("sleep", seconds)
        await self._sleep_until(self._read() + max(0.0, seconds))

    async def sleep_until(self, deadline: float) -> None:
        self._node.enter("sleep_until", deadline)
        await self._sleep_until(deadline)

    async def _sleep_until(self, deadline: float) -> None:
        if deadline <= self._read():
            await trio.lowlevel.checkpoint()
            return
        parking = Parking(self._node)
        alarm = self.set_alarm(deadline, parking.wake_all)
        try:
            await parking.wait()
        finally:
            self.drop_alarm(alarm)

    def move_on_at(self, deadline: float) -> DeadlineScope:
        self._node.enter("move_on_at", deadline)
        return DeadlineScope(self, deadline)

    def move_on_after(self, seconds: float) -> DeadlineScope:
        self._node.enter("move_on_after", seconds)
        return DeadlineScope(self, self._origin + (self._node.time.now - self._at) * self._speed + seconds)


class DeadlineScope:
    """A cancel scope whose deadline counts on the node's own clock."""

    __slots__ = ("_alarm", "_clock", "_deadline", "_scope")

    def __init__(self, clock: SimulatedClock, deadline: float) -> None:
        self._clock = clock
        self._deadline = deadline
        self._scope = trio.CancelScope()
        self._alarm: Alarm | None = None

    def __enter__(self) -> DeadlineScope:
        self._alarm = self._clock.set_alarm(self._deadline, self._scope.cancel)
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if self._alarm:
            self._clock.drop_alarm(self._alarm)
        return self._scope.__exit__(kind, error, traceback)

    @property
    def cancelled_caught(self) -> bool:
        return self._scope.cancelled_caught

    def cancel(self) -> None:
        self._scope.cancel()
