"""Virtual time: one event heap that trio's own loop is driven by.

Trio asks its clock how long to wait only when no task can run; the answer here is always "not at all", and time has
moved to the next event. While tasks do run, each turn of the loop costs `TURN_SECONDS`, so that a task which spins
on checkpoints sees time pass as it would on a real machine. Events due run between turns of the loop, in order of
time and, at equal times, of their making: trio's own deadlines break ties by the address of an object, so nothing
here uses them.
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
    """Something that happens at its time, unless it is cancelled before."""

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
        """`action` runs outside any task: it may wake tasks and change plain state, and must not raise."""
        sequence = self._sequence = self._sequence + 1
        event = Event(action)
        now = self.now
        heapq.heappush(self._heap, (time if time > now else now, sequence, event))
        return event

    def call_after(self, seconds: float, action: Callable[[], object]) -> Event:
        return self.call_at(self.now + seconds, action)

    def cancel(self, event: Event) -> None:
        """Idempotent, also after the event has happened."""
        if event.action is None:
            return
        event.action = None
        self._cancelled += 1
        if self._cancelled >= SWEEP_AT and self._cancelled * 2 > len(self._heap):
            self._heap = [each for each in self._heap if each[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def start_clock(self) -> None:
        """Trio's hook; this clock needs no start."""

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Trio's question when every task waits. Raises RuntimeError if nothing will ever happen again."""
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
        """Trio's question at every turn of its loop: what is due happens here."""
        self.now += self._turn_seconds
        while (heap := self._heap) and heap[0][0] <= self.now:
            _, _, event = heapq.heappop(heap)
            action, event.action = event.action, None
            if action is None:
                self._cancelled -= 1
            else:
                action()
        return self.now
