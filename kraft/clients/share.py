"""The share consumer for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Self, TypedDict

from kraft.clients.polls import Polls
from kraft.clients.remote_context import ClientLoop, RemoteContext
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.rpc_client.share_consumer import POLL_SECONDS
from kraft.rpc_client.share_consumer import ShareConsumer as TrioShareConsumer
from kraft.rpc_client.share_record import AcknowledgementsFailed, ShareRecord


class ShareOptions(TypedDict, total=False):
    """The options of `kraft.clients.open_share_consumer`, with its defaults."""

    explicit: bool
    max_records: int
    record_limit: bool
    max_poll_seconds: float


class ShareConsumer:
    """A share consumer created by `Cluster.share_consumer`. One task polls. If it is explicit, other tasks may
    acknowledge records and commit."""

    def __init__(self, loop: ClientLoop, make: Callable[[], AbstractAsyncContextManager[TrioShareConsumer]]) -> None:
        self._loop = loop
        self._context = RemoteContext(loop, make)
        self._polls: Polls[ShareRecord] = Polls(loop)
        self._opened: TrioShareConsumer | None = None

    async def __aenter__(self) -> Self:
        await self._context.enter()
        self._opened = self._context.value
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        fails = kind is not None or not await self._give_back()
        self._polls.end()
        await self._context.leave(fails=fails)

    @property
    def in_flight(self) -> int:
        """Records that are acquired and not acknowledged."""
        return self._context.value.in_flight

    @property
    def failed(self) -> dict[TopicPartition, AcknowledgementsFailed]:
        """Acknowledgements that failed since the last `commit`, by partition. They can be read after the consumer is
        closed, too."""
        return {} if self._opened is None else dict(self._opened.failed)

    @property
    def obstacle(self) -> Exception | None:
        """The error because of which the last `poll` could not fetch; None if there was none."""
        return self._context.value.obstacle

    async def poll(self, seconds: float = POLL_SECONDS) -> list[ShareRecord]:
        """Poll as `kraft.clients.ShareConsumer.poll` does. If the task is cancelled (`asyncio.wait_for`), the next poll
        returns the records that this one has found."""
        consumer = self._context.value
        return await self._polls.poll(lambda: consumer.poll(seconds))

    def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Iterate over records without end. Unless the consumer is explicit, the returned records are accepted by the
        next poll, by `commit`, and by the end of the block."""
        return self

    async def __anext__(self) -> ShareRecord:
        return await self._polls.next(self.poll)

    async def accept(self, *records: ShareRecord) -> None:
        """Acknowledge that the records are processed. Raises as `kraft.clients.ShareConsumer.accept`."""
        await self._acknowledge(self._context.value.accept, records)

    async def release(self, *records: ShareRecord) -> None:
        """Let the group deliver the records again, to any member. Raises as `accept`."""
        await self._acknowledge(self._context.value.release, records)

    async def reject(self, *records: ShareRecord) -> None:
        """Acknowledge that the records cannot be processed: they are not delivered again. Raises as `accept`."""
        await self._acknowledge(self._context.value.reject, records)

    async def renew(self, *records: ShareRecord) -> None:
        """Restart the acquisition locks of the records. Raises as `accept`."""
        await self._acknowledge(self._context.value.renew, records)

    async def commit(self, seconds: float | None = None) -> dict[TopicPartition, AcknowledgementsFailed]:
        """Send the acknowledgements as `kraft.clients.ShareConsumer.commit` does. Records that no poll has returned are
        not accepted. Also raises KraftError if a poll whose task was cancelled does not end in time."""
        consumer = self._context.value
        if not await self._give_back():
            raise KraftError("a poll whose task was cancelled has not ended: nothing was committed")
        return dict(await self._loop.on_loop(lambda: consumer.commit(seconds)))

    async def _acknowledge(self, acknowledge: Callable[[ShareRecord], None], records: Sequence[ShareRecord]) -> None:
        async def each_of_them() -> None:
            for record in records:
                acknowledge(record)

        await self._loop.on_loop(each_of_them)

    async def _give_back(self) -> bool:
        """Release the records that no poll has returned, so that they are not accepted. Returns False if a poll whose
        task was cancelled does not end in time."""
        consumer = self._context.value
        unseen = await self._polls.take_left()
        if unseen:

            async def give_back() -> None:
                consumer.give_back(unseen)

            await self._loop.on_loop(give_back)
        return unseen is not None
