"""Pass records from asyncio to the client's loop, and their results back, in batches: records sent within one turn of
asyncio's loop cross together."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, Protocol

import trio

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.records.record import Headers
from kraft.rpc_client.accumulator import Delivery, record_size
from kraft.rpc_client.producer import BUFFER_BYTES
from kraft.world.asyncio_bridge import AsyncioBridge

HANDED_OVER = 256
"""Records passed to the other thread in one batch, if as many are queued."""


class Sent(NamedTuple):
    """The position of a stored record. `offset` is -1 if unknown (acks=0). `timestamp` is ms since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Send(Protocol):
    """The signature of `Producer.send` and `Transaction.send`."""

    async def __call__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> Delivery: ...


Item = tuple[str, bytes | None, bytes | None, int | None, Headers, int | None, "asyncio.Future[Sent]", int]
"""Topic, value, key, partition, headers, timestamp, the future of the result, and the size in bytes."""


class RecordBridge:
    """Passes records to the client's loop, and their results back. It `is_full` while `BUFFER_BYTES` are in flight. It
    is created on asyncio's loop. `run` is a task of the client's loop; when it ends, all remaining records get a
    result."""

    def __init__(self, send: Send, bridge: AsyncioBridge) -> None:
        self._send = send
        self._bridge = bridge
        self._loop = asyncio.get_running_loop()
        self._items: list[Item] = []
        self._bytes = 0
        self.is_full = False
        """Whether callers must wait for `room`."""
        self._freed = asyncio.Event()
        self._on_their_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._arrived: deque[Item] = deque()
        self._wake = trio.Event()
        self._scope: trio.CancelScope | None = None
        self._has_stopped = self._has_ended = False
        self._problem: BaseException = KraftError("the client has ended")
        self._waiting: dict[TopicPartition, tuple[deque[tuple[Delivery, Item]], trio.Event]] = {}

    # On asyncio's loop

    @property
    def is_long(self) -> bool:
        """Whether enough records are queued to pass them on immediately."""
        return len(self._items) >= HANDED_OVER

    async def room(self) -> None:
        """Wait until the bridge is no longer full."""
        while self.is_full:
            self._freed.clear()
            await self._freed.wait()

    def put(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: Headers,
        timestamp: int | None,
    ) -> asyncio.Future[Sent]:
        """Queue a record. The future resolves to its position or an error."""
        size = record_size(key, value, headers)
        future: asyncio.Future[Sent] = self._loop.create_future()
        if not self._items:
            self._loop.call_soon(self._hand_over)
            self._idle.clear()
        self._items.append((topic, value, key, partition, headers, timestamp, future, size))
        self._bytes += size
        self._on_their_way += 1
        self.is_full = self._bytes >= BUFFER_BYTES
        return future

    def _hand_over(self) -> None:
        items, self._items = self._items, []
        if not self._bridge.tell(self._arrive, items):
            self._complete([(item, self._problem) for item in items])

    def _complete(self, done: list[tuple[Item, Sent | BaseException]]) -> None:
        for item, outcome in done:
            future = item[6]
            self._bytes -= item[7]
            if not future.done():
                if isinstance(outcome, BaseException):
                    future.set_exception(outcome)
                    future.exception()  # Marks it as retrieved: the caller may ignore it.
                else:
                    future.set_result(outcome)
        self._on_their_way -= len(done)
        if self._bytes < BUFFER_BYTES:
            self.is_full = False
            self._freed.set()
        if self._on_their_way == 0:
            self._idle.set()

    async def settled(self) -> None:
        """Wait until no record is in flight."""
        await self._idle.wait()

    # On the client's loop

    def _arrive(self, items: list[Item]) -> None:
        if self._has_ended:
            self._tell([(item, self._problem) for item in items])
            return
        self._arrived += items
        self._wake.set()

    def stop(self, problem: BaseException) -> None:
        """Stop sending. Waiting callers get `problem`."""
        if self._has_stopped:
            return
        self._has_stopped, self._problem = True, problem
        if self._scope is not None:
            self._scope.cancel()

    async def run(self) -> None:
        """Send queued records until stopped."""
        try:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                while not self._has_stopped:
                    while self._arrived:
                        await self._send_next(nursery)
                    await self._wake.wait()
                    self._wake = trio.Event()
        finally:
            self._has_ended = True
            self._give_up()

    async def _send_next(self, nursery: trio.Nursery) -> None:
        item = self._arrived[0]
        topic, value, key, partition, headers, timestamp, _, _ = item
        try:
            delivery = await self._send(topic, value, key, partition=partition, headers=headers, timestamp=timestamp)
        except Exception as problem:  # noqa: BLE001 - of this record alone: whatever it was goes to who sent it.
            self._arrived.popleft()
            self._tell([(item, problem)])
            return
        self._arrived.popleft()
        found = self._waiting.get(delivery.partition)
        if found is None:
            found = self._waiting[delivery.partition] = deque(), trio.Event()
            nursery.start_soon(self._follow, delivery.partition)
        found[0].append((delivery, item))
        found[1].set()

    def _give_up(self) -> None:
        """Report the known results of records in flight, and the problem for the rest."""
        left: list[tuple[Item, Sent | BaseException]] = [
            (item, _outcome(delivery) if delivery.is_done else self._problem)
            for queue, _ in self._waiting.values()
            for delivery, item in queue
        ]
        self._tell(left + [(item, self._problem) for item in self._arrived])

    async def _follow(self, partition: TopicPartition) -> None:
        """Report the deliveries of one partition, which end in order."""
        queue, _ = self._waiting[partition]
        while True:
            while queue:
                await queue[0][0].settled()
                done: list[tuple[Item, Sent | BaseException]] = []
                while queue and queue[0][0].is_done:
                    delivery, item = queue.popleft()
                    done.append((item, _outcome(delivery)))
                self._tell(done)
            waiting = trio.Event()
            self._waiting[partition] = queue, waiting
            await waiting.wait()

    def _tell(self, done: list[tuple[Item, Sent | BaseException]]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._complete, done)
        except RuntimeError:
            return  # The caller's loop has ended, so no task waits.


def _outcome(delivery: Delivery) -> Sent | BaseException:
    try:
        done = delivery.outcome()
    except KraftError as problem:
        return problem
    return Sent(done.partition.topic, done.partition.partition, done.offset, done.timestamp)
