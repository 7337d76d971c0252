"""The one rule by which long work on the loop lets others be served.

A turn is about TURN_ITEMS items of a few microseconds each, so a step of the loop stays well below 20 ms. Count items
with a `Turn` in a coroutine; pure code is a generator that yields where it may pause, and `in_turns` drives it. Items
are counted and no clock is read, so a simulated run pauses at the same places every time.

Others run during a pause: whatever was read before it (an image, an epoch, a leader) is read again after it, or the
whole work goes on with the one image that it began with.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable
from itertools import islice
from typing import Final, TypeVar

import trio

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


def at_once(work: Generator[None, None, T]) -> T:
    """What `work` returns, without a pause. Raises what it raises."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        result: T = end.value
        return result


async def in_turns(work: Generator[None, None, T], items_max: int = 1) -> T:
    """What `work` returns. Others are served after every `items_max` of its yields: work that yields after each item
    passes TURN_ITEMS, work that counts for itself leaves it at one. Raises what it raises."""
    left = items_max
    try:
        while True:
            next(work)
            left -= 1
            if not left:
                left = items_max
                await trio.lowlevel.checkpoint()
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        work.close()
