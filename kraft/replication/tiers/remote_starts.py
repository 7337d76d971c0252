"""Asking the remote tier where a follower goes on whose leader has what it lacks there alone.

A store may need long to answer, or never do. So each partition is a task of its own, beside the fetchers, which go on
with all others. (Kafka's fetcher threads wait for the store: TierStateMachine.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from kraft.replication.fetchers.following import Following

STARTS_MAX: Final = 8
"""At once. They read whole objects, of which a producer snapshot may be large."""

Work = Callable[[], Awaitable[None]]


class RemoteStarts:
    """Owned by the broker's loop. What is begun before `run`, or beyond STARTS_MAX, waits in order; nothing waits that
    is not followed, so there are as many as there are partitions at most."""

    def __init__(self) -> None:
        self._waiting: dict[Following, Work] = {}
        self._running: dict[Following, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Work until cancelled."""
        async with trio.open_nursery() as start_nursery:
            self._nursery = start_nursery
            try:
                self._start_next()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def begin(self, following: Following, work: Work) -> None:
        """Do `work`, which handles its errors, as soon as there is room. It ends in bounded time."""
        assert following not in self._running, "a partition waits for one answer"
        self._waiting[following] = work
        self._start_next()

    def give_up(self, following: Following) -> None:
        """Nobody wants to know any more: others need not wait for it."""
        self._waiting.pop(following, None)
        if following in self._running:
            self._running[following].cancel()

    def _start_next(self) -> None:
        while self._nursery is not None and self._waiting and len(self._running) < STARTS_MAX:
            following = next(iter(self._waiting))
            self._running[following] = trio.CancelScope()
            self._nursery.start_soon(self._work, following, self._waiting.pop(following))

    async def _work(self, following: Following, work: Work) -> None:
        with self._running[following]:
            await work()
        del self._running[following]
        self._start_next()
