"""Worker processes, simulated without processes. The work runs in place, some steps at a time, like a function of a
worker thread.

A worker dies with its node, also between two of its file calls. It may also die alone, if a test asks for that.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

from kraft.world.ports import A, Clock, FileSystem, R, StepEnd, Work, WorkFailed
from kraft.world.simulated.threads import SimulatedThreads

STEPS_A_SLICE = 64


class SimulatedWorkers:
    """Implements `kraft.world.ports.Workers`. `death_rate` is the probability that the process dies before a result."""

    __slots__ = ("_chance", "_clock", "_files", "_threads", "death_rate", "deaths")

    def __init__(self, files: FileSystem, threads: SimulatedThreads, clock: Clock, chance: random.Random) -> None:
        self._files = files
        self._threads = threads
        self._clock = clock
        self._chance = chance
        self.death_rate = 0.0
        self.deaths = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[SimulatedWorker]:
        yield SimulatedWorker(self)

    async def run_slice(self, work: Iterator[Any]) -> Any:
        return await self._threads.run(_slice, work)

    def begin(self, work: Work[A, R], argument: A) -> Iterator[Any]:
        return iter(work(self._files, argument))

    async def rest(self, seconds: float) -> None:
        if seconds > 0:
            await self._clock.sleep(seconds)

    def dies(self) -> bool:
        if self.death_rate and self._chance.random() < self.death_rate:
            self.deaths += 1
            return True
        return False


class SimulatedWorker:
    """Implements `kraft.world.ports.Worker`."""

    __slots__ = ("_work", "_workers")

    def __init__(self, workers: SimulatedWorkers) -> None:
        self._workers = workers
        self._work: Iterator[Any] | None = None

    async def begin(self, work: Work[A, R], argument: A) -> None:
        self._work = self._workers.begin(work, argument)

    async def next_result(self) -> Any:
        assert self._work is not None, "no work was begun"
        dies = self._workers.dies()
        while True:
            seconds, result = await self._workers.run_slice(self._work)
            await self._workers.rest(seconds)
            if dies:
                self._work = None
                raise WorkFailed("the work process was killed")
            if result is not None:
                return result


def _slice(work: Iterator[Any]) -> tuple[float, Any]:
    """Run some steps of the work. Returns the seconds that they must take, and the result or None."""
    seconds = 0.0
    for _ in range(STEPS_A_SLICE):
        try:
            found = next(work)
        except StopIteration:
            raise WorkFailed("the work is at its end") from None
        if not isinstance(found, StepEnd):
            return seconds, found
        seconds += found.seconds
    return seconds, None
