"""What takes long is gathered by one at a time, and not again for whoever asks soon after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from kraft.server.metrics.latest import KEPT_SECONDS, Latest

GATHER_SECONDS = 0.25


class Gathering:
    """Tells how often it was done, GATHER_SECONDS after it began; at most one at a time."""

    def __init__(self) -> None:
        self.count = 0
        self.is_under_way = False

    async def __call__(self) -> int:
        assert not self.is_under_way
        self.is_under_way = True
        try:
            await trio.sleep(GATHER_SECONDS)
        finally:
            self.is_under_way = False
        self.count += 1
        return self.count


def play(story: Callable[[Latest[int]], Awaitable[None]], *, is_large: bool = True) -> None:
    async def main() -> None:
        await story(Latest(trio.current_time, lambda _: is_large))

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def ask_at_once(latest: Latest[int], gather: Callable[[], Awaitable[int]], askers: int) -> list[int]:
    answers: list[int] = []

    async def ask() -> None:
        answers.append(await latest.get(gather))

    async with trio.open_nursery() as asking_nursery:
        for _ in range(askers):
            asking_nursery.start_soon(ask)
    return answers


@pytest.mark.parametrize(("is_large", "answers"), [(True, [1, 1, 1]), (False, [1, 2, 3])])
def test_concurrent_requests_for_a_large_result_compute_it_once(is_large: bool, answers: list[int]) -> None:
    async def story(latest: Latest[int]) -> None:
        assert await ask_at_once(latest, Gathering(), 3) == answers

    play(story, is_large=is_large)


def test_a_large_result_is_cached_for_one_second() -> None:
    async def story(latest: Latest[int]) -> None:
        gather = Gathering()
        assert await latest.get(gather) == 1
        await trio.sleep(0.9 * KEPT_SECONDS)
        assert await latest.get(gather) == 1
        await trio.sleep(0.2 * KEPT_SECONDS)
        assert await latest.get(gather) == 2

    play(story)


def test_after_a_failed_or_cancelled_computation_the_next_request_computes_again() -> None:
    async def fail() -> int:
        await trio.sleep(GATHER_SECONDS)
        raise ConnectionError("gone")

    async def story(latest: Latest[int]) -> None:
        gather = Gathering()
        with pytest.raises(ConnectionError):
            await latest.get(fail)
        with trio.move_on_after(GATHER_SECONDS / 2):
            await latest.get(gather)
        assert await latest.get(gather) == 1

    play(story)
