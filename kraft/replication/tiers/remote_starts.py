"""Finds where a follower starts when only remote storage has the data that it lacks.

A store may be slow or never respond. So each partition has its own task, and the fetchers continue with all other
partitions. (Kafka's fetcher threads wait for the store: TierStateMachine.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from kraft.replication.fetchers.following import Following

STARTS_MAX: Final = 8
"""Limit of concurrent starts. Each reads whole objects, and a producer snapshot may be large."""

Work = Callable[[], Awaitable[None]]


class RemoteStarts:
    """Tasks that read the remote tier for followers. Owned by the broker's loop.

    Tasks started before `run`, or beyond STARTS_MAX, are queued in order. Only followed partitions are queued, so the
    queue is bounded by their number.
    """

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
        """Run `work` as soon as there is room. `work` handles its own errors and ends in bounded time."""
        assert following not in self._running, "a partition waits for one answer"
        self._waiting[following] = work
        self._start_next()

    def give_up(self, following: Following) -> None:
        """Cancel the partition's task, queued or running, to make room for others."""
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
