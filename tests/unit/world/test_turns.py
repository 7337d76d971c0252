"""Long work pauses after so many items, and not before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator

import pytest
import trio

from kraft.world.turns import TURN_ITEMS, Turn, in_turns


def pauses(work: Callable[[], Awaitable[object]]) -> int:
    """How often another task was served while `work` ran."""
    counts: list[int] = [0, 0]

    async def other() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            counts[0] += 1

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await trio.lowlevel.checkpoint()
            before = counts[0]
            await work()
            counts[1] = counts[0] - before
            nursery.cancel_scope.cancel()

    trio.run(main)
    return counts[1]


@pytest.mark.parametrize(("items", "least", "most"), [(TURN_ITEMS - 1, 0, 0), (10 * TURN_ITEMS, 9, 11)])
def test_a_turn_is_over_after_its_items(items: int, least: int, most: int) -> None:
    async def work() -> None:
        turn = Turn()
        for _ in range(items):
            if turn.is_over():
                await turn.next()

    assert least <= pauses(work) <= most


def test_dear_items_count_for_several() -> None:
    async def work() -> None:
        turn = Turn()
        for _ in range(10):
            if turn.is_over(TURN_ITEMS):
                await turn.next()

    assert 9 <= pauses(work) <= 11


def test_a_generator_pauses_where_it_yields_and_its_result_and_its_error_come_back() -> None:
    def steps(end: str) -> Generator[None, None, str]:
        for _ in range(5):
            yield
        if end == "error":
            raise LookupError(end)
        return end

    async def work() -> None:
        assert await in_turns(steps("done")) == "done"
        with pytest.raises(LookupError):
            await in_turns(steps("error"))

    assert 9 <= pauses(work) <= 11
