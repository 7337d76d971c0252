"""One life of one node: its port calls, the tasks that wait on it, and its pauses and death.

Every port call of the node passes `enter`, which rejects dead nodes, counts down to a planned death, and writes the
trace. Everything that wakes a task of the node passes `wake`, so that a paused node is not woken until it resumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import outcome
import trio

from kraft.world.simulated.trace import CALLS_PER_UPDATE

if TYPE_CHECKING:
    from kraft.world.simulated.time import VirtualTime
    from kraft.world.simulated.trace import Trace


class NodeDied(BaseException):
    """Raised by every port call of a dead node.

    It is not an Exception, so that no handler in the product mistakes it for a failure; only the simulator may catch
    it.
    """


class Node:
    """One life of a node. A restarted node is another `Node` on the same disk; handles of the old one stay dead."""

    __slots__ = (
        "_calls",
        "_countdown",
        "_deferred",
        "_is_doomed",
        "_on_death",
        "_parked",
        "_planned_power_loss",
        "alive",
        "delayed",
        "incarnation",
        "name",
        "paused",
        "power_lost",
        "time",
        "trace",
    )

    def __init__(self, name: str, incarnation: int, time: VirtualTime, trace: Trace) -> None:
        self.name = name
        self.incarnation = incarnation
        self.time = time
        self.trace = trace
        self._calls = trace.waiting
        self.alive = True
        self.paused = False
        self.delayed = 0  # Wake-ups that a pause has delayed.
        self.power_lost = False  # How it died: with its machine, or only its process.
        self._is_doomed = False  # Dead, or about to die: each port call is looked at.
        self._countdown: float = math.inf  # Port calls left until a planned death.
        self._planned_power_loss = False
        self._on_death: list[Callable[[], None]] = []
        self._parked: dict[trio.lowlevel.Task, Parking] = {}
        self._deferred: list[Callable[[], None]] = []  # What would have woken the node while it was paused.

    def enter(self, operation: str, *facts: object) -> None:
        """Called by every port call before it does anything. Raises NodeDied."""
        if self._is_doomed:
            self._come_nearer_to_death(operation)
        calls = self._calls
        calls.append((self.time.now, self.name, operation, facts))
        if len(calls) >= CALLS_PER_UPDATE:
            self.trace.fold()

    def _come_nearer_to_death(self, operation: str) -> None:
        if not self.alive:
            raise NodeDied(self.name)
        self._countdown -= 1
        if self._countdown < 0:
            self.note("planned death before", operation)
            self.die(power_lost=self._planned_power_loss)
            raise NodeDied(self.name)

    def note(self, operation: str, *facts: object) -> None:
        """Write a result into the trace."""
        calls = self._calls
        calls.append((self.time.now, self.name, operation, facts))
        if len(calls) >= CALLS_PER_UPDATE:
            self.trace.fold()

    def die_after_calls(self, count: int, *, power_lost: bool) -> None:
        """Let the node die just before its port call number `count` from now (0 = the next), in a task or in a thread's
        function."""
        self._is_doomed = True
        self._countdown = count
        self._planned_power_loss = power_lost

    def on_death(self, action: Callable[[], None]) -> None:
        """Run `action` when the node dies, in order of registration; immediately if it is dead."""
        if self.alive:
            self._on_death.append(action)
        else:
            action()

    def die(self, *, power_lost: bool) -> None:
        """Stop the ports, wake tasks that wait on one with NodeDied, then run the actions of `on_death`. Idempotent."""
        if not self.alive:
            return
        self.alive, self._is_doomed = False, True
        self.power_lost = power_lost
        self._deferred.clear()
        for task, parking in list(self._parked.items()):
            parking.release(task, outcome.Error(NodeDied(self.name)))
        actions, self._on_death = self._on_death, []
        for action in actions:
            action()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            self.wake(action)

    def wake(self, action: Callable[[], None]) -> None:
        """Run `action`, which wakes tasks of this node, now or when it resumes; never if it has died."""
        if not self.alive:
            return
        if self.paused:
            self.delayed += 1
            self._deferred.append(action)
        else:
            action()

    def parked(self, task: trio.lowlevel.Task, parking: Parking) -> None:
        self._parked[task] = parking

    def unparked(self, task: trio.lowlevel.Task) -> None:
        del self._parked[task]


class Parking:
    """The tasks of one node that wait for the same event (readable, writable, a connection, the end of a function)."""

    __slots__ = ("_cancellable", "_node", "_tasks")

    def __init__(self, node: Node, *, cancellable: bool = True) -> None:
        self._node = node
        self._cancellable = cancellable
        self._tasks: dict[trio.lowlevel.Task, None] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    async def wait(self) -> None:
        """Wait for `wake_all`. Raises NodeDied."""
        task = trio.lowlevel.current_task()
        self._tasks[task] = None
        self._node.parked(task, self)

        def abort(_: object) -> trio.lowlevel.Abort:
            if not self._cancellable:
                return trio.lowlevel.Abort.FAILED
            self._forget(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake_all(self) -> None:
        if self._tasks:
            self._node.wake(self._wake_now)

    def _wake_now(self) -> None:
        for task in list(self._tasks):
            self._forget(task)
            trio.lowlevel.reschedule(task)

    def release(self, task: trio.lowlevel.Task, result: outcome.Error) -> None:
        self._forget(task)
        trio.lowlevel.reschedule(task, result)

    def _forget(self, task: trio.lowlevel.Task) -> None:
        del self._tasks[task]
        self._node.unparked(task)
