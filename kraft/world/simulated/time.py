"""Virtual time: one event heap that drives trio's own loop.

Trio asks its clock how long to wait only if no task can run. The answer is always 0 s, and time moves to the next
event. While tasks run, each turn of the loop takes `TURN_SECONDS`, so that a task which spins on checkpoints sees time
pass as on a real machine. Due events run between turns of the loop, in order of time, and at equal times in order of
creation. Trio's own deadlines are not used, because they break ties by the address of an object.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import trio

TURN_SECONDS = 1e-6
CLOSING_SECONDS = 1.0  # Real ones, which trio does not use up.
SWEEP_AT = 4096  # Cancelled events in the heap before they are swept out.


class Event:
    """An action at a given time, unless it is cancelled before."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self.action: Callable[[], object] | None = action


class VirtualTime(trio.abc.Clock):
    """Trio's clock for one simulation. `now` is universal time, in seconds since the simulation began."""

    def __init__(self, turn_seconds: float = TURN_SECONDS) -> None:
        self.now = 0.0
        self._turn_seconds = turn_seconds
        self._heap: list[tuple[float, int, Event]] = []  # The sequence number decides between equal times.
        self._sequence = 0
        self._cancelled = 0
        # Set once the simulation's body has ended: what trio then does to close its run waits for its own wake-up
        # socket.
        self.ended = False

    def call_at(self, time: float, action: Callable[[], object]) -> Event:
        """Run `action` at that time, outside any task. It may wake tasks and change plain state, and must not raise."""
        sequence = self._sequence = self._sequence + 1
        event = Event(action)
        now = self.now
        heapq.heappush(self._heap, (time if time > now else now, sequence, event))
        return event

    def call_after(self, seconds: float, action: Callable[[], object]) -> Event:
        return self.call_at(self.now + seconds, action)

    def cancel(self, event: Event) -> None:
        """Cancel an event. Idempotent, also after the event has run."""
        if event.action is None:
            return
        event.action = None
        self._cancelled += 1
        if self._cancelled >= SWEEP_AT and self._cancelled * 2 > len(self._heap):
            self._heap = [each for each in self._heap if each[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def start_clock(self) -> None:
        """Do nothing: trio calls this hook, but this clock needs no start."""

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Move time to the next event. Trio calls this hook when every task waits. Raises RuntimeError if there is no
        further event."""
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        next_time = min(deadline, self._heap[0][0] if self._heap else math.inf)
        if self.ended:
            return CLOSING_SECONDS
        if next_time == math.inf:
            raise RuntimeError("the simulation is stuck: every task waits and no event is due")
        self.now = max(self.now, next_time)
        return 0.0

    def current_time(self) -> float:
        """Run the due events and return the time. Trio calls this hook at every turn of its loop."""
        self.now += self._turn_seconds
        while (heap := self._heap) and heap[0][0] <= self.now:
            _, _, event = heapq.heappop(heap)
            action, event.action = event.action, None
            if action is None:
                self._cancelled -= 1
            else:
                action()
        return self.now
