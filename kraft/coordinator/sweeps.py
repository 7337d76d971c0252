"""Work on everything in a shard, in bounded parts, so that the node serves other requests in between.

A sweep takes the newest state once, and yields an operation for each part of it. Each operation runs on the state that
is newest then, and checks again what applies. The next operation waits until the previous one's records are committed,
so a sweep never has more than one part in flight.

A sweep ends when an operation is refused, or when leadership moves. So its work must be looked for again periodically,
on this node or the next leader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

import trio

from kraft.common.errors import ApiError
from kraft.coordinator.pending_batch import Waiter
from kraft.coordinator.shard import Operation

S = TypeVar("S")

Walk = Callable[[S], Iterator[Operation]]

WALKS_MAX = 100
"""The number of sweeps that may be queued in one shard. Further ones are dropped."""


class Sweeps(Generic[S]):
    """The sweeps of one shard, run one at a time in order of arrival. Sweeps added before the shard is loaded wait for
    it. `guard` contains an unexpected error of an operation, so that the next sweeps still run."""

    def __init__(
        self, note: Callable[[dict[str, Any]], None], guard: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._note = note
        self._guard = guard
        self._waiting: deque[Walk[S]] = deque()
        self._woken = trio.Event()

    def add(self, walk: Walk[S]) -> None:
        """Queue a sweep. A queued sweep is not queued again."""
        if walk in self._waiting:
            return
        if len(self._waiting) == WALKS_MAX:
            self._note({"event": "coordinator_walk_refused", "error": f"{WALKS_MAX} wait already"})
            return
        self._waiting.append(walk)
        self._woken.set()

    async def run(self, newest_state: Callable[[], S], submit: Callable[[Operation], Waiter]) -> None:
        """Run sweeps until cancelled."""
        while True:
            while self._waiting:
                await self._walk(self._waiting.popleft(), newest_state, submit)
            self._woken = trio.Event()
            await self._woken.wait()

    async def _walk(self, walk: Walk[S], newest_state: Callable[[], S], submit: Callable[[Operation], Waiter]) -> None:
        try:
            for operation in walk(newest_state()):
                with self._guard():
                    await submit(operation).wait()
                await trio.lowlevel.checkpoint()
        except ApiError as refused:
            self._note({"event": "coordinator_walk_refused", "error": str(refused)})
