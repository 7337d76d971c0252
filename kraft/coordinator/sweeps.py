"""Work on everything that a shard holds, in turns: however much that is, the node serves others in between.

A walk takes the newest state, once, and yields an operation for each bounded part of it. Each operation runs on the
state that is newest then, and decides anew: whatever changed since the walk began counts. The next one waits until
what the last wrote is committed, so a walk never has more than one turn's records on their way.

A walk that is refused ends, as it does when leadership goes: what it walks for must be sought again at times, here
or by the next leader.
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
"""How many walks wait in one shard; what comes besides is not taken."""


class Sweeps(Generic[S]):
    """The walks of one shard, one at a time in the order in which they came. Those that come before the shard is
    loaded wait for it. `guard` sets a turn aside whose operation fails in a way that nobody foresaw: the next ones
    follow."""

    def __init__(
        self, note: Callable[[dict[str, Any]], None], guard: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._note = note
        self._guard = guard
        self._waiting: deque[Walk[S]] = deque()
        self._woken = trio.Event()

    def add(self, walk: Walk[S]) -> None:
        """One that waits already is not taken twice."""
        if walk in self._waiting:
            return
        if len(self._waiting) == WALKS_MAX:
            self._note({"event": "coordinator_walk_refused", "error": f"{WALKS_MAX} wait already"})
            return
        self._waiting.append(walk)
        self._woken.set()

    async def run(self, newest_state: Callable[[], S], submit: Callable[[Operation], Waiter]) -> None:
        """Walk until cancelled."""
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
