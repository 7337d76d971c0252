"""The one rule by which long work on the loop yields to other tasks.

A turn is about TURN_ITEMS items of a few microseconds each, so a step of the loop stays well below 20 ms. A coroutine
counts items with a `Turn`. Work that waits only for its own jobs is written in steps (`kraft.world.steps`): `in_turns`
drives them, yields in between, and runs the jobs in threads. Items are counted and no clock is read, so a simulated run
pauses at the same places every time.

Other tasks run during a pause. So state that was read before it (an image, an epoch, a leader) must be read again after
it, or the whole work must use the one image with which it began.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Final, TypeVar

import trio

from kraft.world.steps import Job, Steps

T = TypeVar("T")
S = TypeVar("S", str, int, tuple[str, int])

TURN_ITEMS: Final = 1000
PARTITIONS_A_TURN: Final = 100
"""Partitions read or appended to between two yields."""
TURN_PARTITIONS: Final = 500
"""Partitions with their logs looked up between two yields."""


class Turn:
    """Counts the items of one piece of work.

    `if turn.is_over(): await turn.next()` after each item costs less than a tenth of a microsecond.
    """

    __slots__ = ("_items_max", "_left")

    def __init__(self, items_max: int = TURN_ITEMS) -> None:
        """`items_max` is smaller where an item costs more than about five microseconds."""
        self._items_max = items_max
        self._left = items_max

    def is_over(self, items: int = 1) -> bool:
        """Count `items` more. True when the turn is used up: then call `next`."""
        self._left -= items
        return self._left <= 0

    async def next(self) -> None:
        """Yield to other tasks, then start another turn."""
        self._left = self._items_max
        await trio.lowlevel.checkpoint()


async def sorted_in_turns(items: Iterable[S], run: int = 10 * TURN_ITEMS) -> list[S]:
    """`items` in order: sorted a run at a time, then merged a turn at a time."""
    turn = Turn()
    runs: list[list[S]] = []
    unsorted = iter(items)
    while part := list(islice(unsorted, run)):
        part.sort()
        runs.append(part)
        await turn.next()
    if len(runs) == 1:
        return runs[0]
    merged: list[S] = []
    for item in heapq.merge(*runs):
        merged.append(item)
        if turn.is_over():
            await turn.next()
    return merged


async def _no_thread(job: Job) -> None:
    raise AssertionError(f"{job!r} is for a thread, and this work has none")


async def serve_others(after_job: bool) -> None:
    """Yield to other tasks once. After a job this is not needed: it yielded itself."""
    if not after_job:
        await trio.lowlevel.checkpoint()


async def in_turns(
    work: Steps[T],
    items_max: int = 1,
    run_job: Callable[[Job], Awaitable[object]] = _no_thread,
    pause: Callable[[bool], Awaitable[None]] = serve_others,
) -> T:
    """Run `work` on the loop, and return its result. Yields to other tasks after every `items_max` pauses of the work.
    Pass TURN_ITEMS for work that pauses after each item, and 1 for work that counts its items itself. `run_job` runs a
    job and waits for it (`Threads.run`). After a job, and at the end of each turn, `pause` is awaited with whether
    there was a job. Raises what `work` raises."""
    left = items_max
    try:
        job = next(work)
        while True:
            problem: Exception | None = None
            if job is not None:
                try:
                    await run_job(job)
                except Exception as raised:  # noqa: BLE001  # Whatever it is, it is for those who asked.
                    problem = raised
                await pause(True)
            else:
                left -= 1
                if not left:
                    left = items_max
                    await pause(False)
            job = next(work) if problem is None else work.throw(problem)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        work.close()
