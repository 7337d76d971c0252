"""The one rule by which long work on the loop lets others be served.

A turn is about TURN_ITEMS items of a few microseconds each, so a step of the loop stays well below 20 ms. Count items
with a `Turn` in a coroutine. Whatever waits for nothing but its own jobs comes in steps (`kraft.world.steps`):
`in_turns` drives them, serves others in between, and has threads do the jobs. Items are counted and no clock is read,
so a simulated run pauses at the same places every time.

Others run during a pause: whatever was read before it (an image, an epoch, a leader) is read again after it, or the
whole work goes on with the one image that it began with.
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
"""Partitions that are read or appended to."""
TURN_PARTITIONS: Final = 500
"""Partitions that are looked up, each with its log."""


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
        """Serve others, then begin another turn."""
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
    """The shortest pause. A job was one itself."""
    if not after_job:
        await trio.lowlevel.checkpoint()


async def in_turns(
    work: Steps[T],
    items_max: int = 1,
    run_job: Callable[[Job], Awaitable[object]] = _no_thread,
    pause: Callable[[bool], Awaitable[None]] = serve_others,
) -> T:
    """What `work` returns. Others are served after every `items_max` of its pauses: work that yields after each item
    passes TURN_ITEMS, work that counts for itself leaves it at one. `run_job` waits for a job (`Threads.run`). Then,
    and at the end of each turn, `pause` decides how long the next step waits: its argument says whether there was a
    job. Raises what `work` raises."""
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
