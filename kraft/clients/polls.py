"""Polls on the client's loop, requested by asyncio tasks that may be cancelled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

from kraft.clients.remote_context import ClientLoop
from kraft.common.ids import TopicPartition
from kraft.rpc_client.consumer import ConsumedRecord
from kraft.rpc_client.consumer import Consumer as TrioConsumer

POLL_SECONDS = 1.0
GIVE_BACK_SECONDS = 5.0
"""How long a commit or close waits for a poll whose task was cancelled."""
R = TypeVar("R")


class Polls(Generic[R]):
    """The polls of one consumer. A poll whose task is cancelled continues, and the next poll returns its records.
    Otherwise those records would be skipped."""

    def __init__(self, loop: ClientLoop) -> None:
        self._loop = loop
        self._under_way: asyncio.Future[list[R]] | None = None
        self._is_awaited = False
        self._left: deque[R] = deque()
        """Records of the last poll that `next` has not returned. No poll is in progress while there are any."""

    @property
    def is_under_way(self) -> bool:
        """Whether the next `poll` returns the records of an earlier one."""
        return bool(self._left) or self._under_way is not None

    async def next(self, poll: Callable[[], Awaitable[list[R]]]) -> R:
        """Return the next record. Until there is one, call `poll`, the poll method of the consumer. Raises its
        errors."""
        while not self._left:
            self._keep(await poll())
        return self._left.popleft()

    async def poll(self, poll: Callable[[], Awaitable[list[R]]]) -> list[R]:
        """Return the records that `next` has left. If there are none, run `poll`, or continue the one in progress.
        Raises its errors."""
        if self._left:
            return self._take_kept()
        if self._under_way is None:
            self._under_way = asyncio.ensure_future(self._loop.on_loop(poll))
        self._is_awaited = True
        try:
            found = await asyncio.shield(self._under_way)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._under_way = None
            raise
        finally:
            self._is_awaited = False
        self._under_way = None
        return found

    def end(self) -> None:
        """Cancel the poll in progress."""
        left, self._under_way = self._under_way, None
        if left is not None:
            left.cancel()

    async def take_left(self) -> list[R] | None:
        """Return the records that were found but not returned, waiting for the poll in progress. None if it does not
        end in time. If it failed, the next poll raises its error. A poll that a task waits for is left alone."""
        if self._left:
            return self._take_kept()
        left = self._under_way
        if left is None or self._is_awaited:
            return []
        await asyncio.wait([left], timeout=GIVE_BACK_SECONDS)
        if not left.done():
            return None
        if left.exception() is not None:
            return []
        self._under_way = None
        return left.result()

    def _keep(self, found: Sequence[R]) -> None:
        self._left.extend(found)

    def _take_kept(self) -> list[R]:
        found = list(self._left)
        self._left.clear()
        return found


class PositionPolls(Polls[ConsumedRecord]):
    """The polls of a consumer with positions, which can go back to before a record."""

    def __init__(self, loop: ClientLoop) -> None:
        super().__init__(loop)
        self._unread: dict[TopicPartition, int] = {}

    @property
    def unread(self) -> Mapping[TopicPartition, int]:
        """By partition, the first offset of the records that `next` has not returned."""
        return self._unread if self._left else {}

    async def next(self, poll: Callable[[], Awaitable[list[ConsumedRecord]]]) -> ConsumedRecord:
        found = await super().next(poll)
        self._unread[found.partition] = found.record.offset + 1
        return found

    def drop_left(self) -> None:
        """Drop the records that `next` has left: the consumer reads them again."""
        self._left.clear()

    def _keep(self, found: Sequence[ConsumedRecord]) -> None:
        super()._keep(found)
        self._unread = {each.partition: each.record.offset for each in reversed(found)}

    async def pass_over(self, partition: TopicPartition) -> None:
        """Drop the records of this partition found so far. The poll in progress has ended, or is about to."""
        if self._left:
            self._left = deque(each for each in self._left if each.partition != partition)
            self._unread.pop(partition, None)
        left = self._under_way
        if left is None:
            return
        await asyncio.wait([left])
        if left.exception() is None:  # Else the next poll tells it.
            kept = [each for each in left.result() if each.partition != partition]
            self._under_way = asyncio.get_running_loop().create_future() if kept else None
            if self._under_way is not None:
                self._under_way.set_result(kept)

    async def give_back(self, consumer: TrioConsumer) -> bool:
        """Rewind the consumer to before the records that were found but not returned; the next poll finds them again.
        Returns False if the poll in progress does not end in time."""
        found = await self.take_left()
        if not found:
            return found is not None

        async def go_back() -> None:
            for each in reversed(found):
                if each.partition in consumer.positions:
                    consumer.seek(each.partition, each.record.offset)

        await self._loop.on_loop(go_back)
        return True
