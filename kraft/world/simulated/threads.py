"""Worker threads, simulated without threads. A function runs as a whole at a drawn moment, and its result arrives at a
later one.

The node may die between the two moments: then the function's effects exist, but no task gets the result. If the node
dies before, the function does not run. A planned death within the function stops it between two of its file calls. Jobs
of a dead node never complete.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import outcome
import trio

from kraft.world.simulated.disk import Disk
from kraft.world.simulated.node import Node, NodeDied, Parking

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DISPATCH_SECONDS_MEAN = 100e-6  # A hop to a thread and back as measured on a small machine.


class SimulatedThreads:
    """Implements `kraft.world.ports.Threads`. File calls inside a function take times drawn by the disk, which delay
    the function's result."""

    __slots__ = ("_disk", "_node", "_random", "running")

    def __init__(self, node: Node, disk: Disk, chance: random.Random) -> None:
        self._node = node
        self._disk = disk
        self._random = chance
        self.running = 0

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        node = self._node
        node.enter("thread", getattr(function, "__name__", type(function).__name__))
        done = Parking(node, cancellable=False)
        result: list[outcome.Outcome[T]] = []

        def work() -> None:
            self._disk.begin_job()
            found = outcome.capture(function, *args)
            if isinstance(found, outcome.Error) and isinstance(found.error, NodeDied):
                return  # A planned death struck inside; the waiting task has NodeDied already.
            result.append(found)
            node.time.call_after(self._disk.end_job() + self._delay(), done.wake_all)

        def begin() -> None:
            node.wake(work)

        node.time.call_after(self._delay(), begin)
        self.running += 1
        try:
            await done.wait()
        finally:
            self.running -= 1
        node.note("thread done", type(result[0]).__name__)
        return result[0].unwrap()

    def _delay(self) -> float:
        return self._random.expovariate(1 / DISPATCH_SECONDS_MEAN)
