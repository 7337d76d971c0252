"""The group consumer for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Self

from kraft.clients.polls import POLL_SECONDS, PositionPolls
from kraft.clients.remote_context import ClientLoop, RemoteContext
from kraft.common.ids import TopicPartition
from kraft.rpc_client.consumer import ConsumedRecord
from kraft.rpc_client.group_consumer import GroupConsumer as TrioGroupConsumer


class GroupConsumer:
    """A group consumer created by `Cluster.group_consumer`. Used by one task at a time."""

    def __init__(self, loop: ClientLoop, make: Callable[[], AbstractAsyncContextManager[TrioGroupConsumer]]) -> None:
        self._loop = loop
        self._context = RemoteContext(loop, make)
        self._polls = PositionPolls(loop)

    async def __aenter__(self) -> Self:
        await self._context.enter()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        fails = kind is not None or not await self._polls.give_back(self.member.consumer)
        self._polls.end()
        await self._context.leave(fails=fails)

    @property
    def member(self) -> TrioGroupConsumer:
        """The consumer of the trio client."""
        return self._context.value

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        return self._context.value.membership.assigned

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        return {**self._context.value.consumer.positions, **self._polls.unread}

    @property
    def obstacle(self) -> Exception | None:
        """The error because of which the last poll could not fetch, as in `kraft.clients.GroupConsumer`."""
        return self._context.value.obstacle

    async def poll(self, seconds: float = POLL_SECONDS) -> list[ConsumedRecord]:
        """Poll as `kraft.clients.GroupConsumer.poll` does. If the task is cancelled (`asyncio.wait_for`), the next poll
        returns the records that this one has found."""
        member = self._context.value
        self._drop_what_comes_again()
        return await self._polls.poll(lambda: member.poll(seconds))

    def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Iterate over records without end. A record counts as processed when the next one is requested, by `commit`,
        and by the end of the block. Records that an iteration has not returned are returned by the next `poll`."""
        return self

    async def __anext__(self) -> ConsumedRecord:
        self._drop_what_comes_again()
        return await self._polls.next(self.poll)

    def _drop_what_comes_again(self) -> None:
        """Drop the records that an iteration has not returned, if an aborted transaction has rewound the consumer."""
        if self.member.is_rewound:
            self._polls.drop_left()

    async def commit(self) -> bool:
        """Commit the returned records, as `kraft.clients.GroupConsumer.commit` does. Also returns False if a poll whose
        task was cancelled does not end in time."""
        unread, member = await self.unread(), self.member
        return unread is not None and await self._loop.on_loop(lambda: member.commit(unread))

    async def unread(self) -> Mapping[TopicPartition, int] | None:
        """Return the first offsets, by partition, that a poll has found and an iteration has not returned. Rewinds to
        before the records found by a poll whose task was cancelled. None if that poll does not end in time."""
        if self._polls.unread:
            return dict(self._polls.unread)
        return {} if await self._polls.give_back(self._context.value.consumer) else None
