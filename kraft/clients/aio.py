"""The client for asyncio: the same cluster, producers, consumers and transactions, as asyncio coroutines.

    async with connect("127.0.0.1:9092") as cluster:
        async with cluster.producer() as producer:
            sent = await producer.send("flights", b"LH 400", key=b"FRA")
            print((await sent).offset)

The client itself runs on a trio loop in its own thread, one per connected cluster. Records cross between the loops in
batches: all records sent within one turn of asyncio's loop cross together, and a poll returns all that it found.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

import trio

from kraft import clients
from kraft.admin.offsets import LATEST, READ_UNCOMMITTED
from kraft.clients.group import GroupConsumer
from kraft.clients.polls import POLL_SECONDS, PositionPolls
from kraft.clients.record_bridge import RecordBridge, Sent
from kraft.clients.remote_context import RemoteContext
from kraft.clients.share import ShareConsumer, ShareOptions
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.records.compression import NONE
from kraft.protocol.records.record import Headers
from kraft.rpc_client.cluster import Cluster as TrioCluster
from kraft.rpc_client.consumer import ConsumedRecord
from kraft.rpc_client.consumer import Consumer as TrioConsumer
from kraft.rpc_client.group_consumer import CLASSIC, open_group_consumer
from kraft.rpc_client.group_membership import MAX_POLL_SECONDS
from kraft.rpc_client.partitioner import Partitioner
from kraft.rpc_client.producer import ALL, BATCH_BYTES, DELIVERY_SECONDS, open_producer
from kraft.rpc_client.producer import Producer as TrioProducer
from kraft.rpc_client.share_consumer import open_share_consumer
from kraft.rpc_client.transactions import TRANSACTION_SECONDS, Transaction, open_transactional_producer
from kraft.rpc_client.transactions import TransactionalProducer as TrioTransactionalProducer
from kraft.world.asyncio_bridge import AsyncioBridge

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", TrioProducer, Transaction)


class Cluster:
    """A cluster for asyncio, created by `connect`. Used by the asyncio loop that entered it."""

    def __init__(self, make: Callable[[], TrioCluster]) -> None:
        self._make = make
        self._began: asyncio.Future[None] | None = None
        self._bridge: AsyncioBridge | None = None
        self._cluster: TrioCluster | None = None
        self._nursery: trio.Nursery | None = None
        self._closing: trio.Event | None = None
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        began: asyncio.Future[None] = loop.create_future()
        self._thread = threading.Thread(
            target=trio.run, args=(self._live, loop, began), name="kraft-client", daemon=True
        )
        self._thread.start()
        try:
            await asyncio.shield(began)
        except asyncio.CancelledError:
            began.add_done_callback(lambda _: self._close())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._thread is not None
        self._close()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _close(self) -> None:
        assert self._bridge is not None
        assert self._closing is not None
        self._bridge.tell(self._closing.set)

    async def _live(self, loop: asyncio.AbstractEventLoop, began: asyncio.Future[None]) -> None:
        """Run the client on its trio loop until the cluster is closed."""
        self._bridge = AsyncioBridge(trio.lowlevel.current_trio_token(), "the client")
        self._closing = trio.Event()
        async with self._make() as self._cluster, trio.open_nursery() as self._nursery:
            loop.call_soon_threadsafe(began.set_result, None)
            await self._closing.wait()
            self._nursery.cancel_scope.cancel()

    async def run(
        self, operation: Callable[Concatenate[TrioCluster, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an operation of `kraft.admin`, for example `run(topics.create_topic, "flights", partitions=3)`. Returns
        and raises as the operation does."""
        return await self.on_loop(lambda: operation(self.there(), *args, **kwargs))

    def producer(
        self,
        *,
        acks: int = ALL,
        codec: int = NONE,
        idempotent: bool = True,
        batch_bytes: int = BATCH_BYTES,
        delivery_seconds: float = DELIVERY_SECONDS,
        partitioner: Partitioner | None = None,
    ) -> Producer[TrioProducer]:
        """Open a producer like `kraft.clients.open_producer`. Returns an asynchronous context manager."""
        return Producer(
            self,
            lambda: open_producer(
                self.there(),
                acks=acks,
                codec=codec,
                idempotent=idempotent and acks == ALL,
                batch_bytes=batch_bytes,
                delivery_seconds=delivery_seconds,
                partitioner=partitioner,
            ),
        )

    def transactional_producer(
        self, transactional_id: str, *, codec: int = NONE, transaction_seconds: float = TRANSACTION_SECONDS
    ) -> TransactionalProducer:
        """Open a producer like `kraft.clients.open_transactional_producer`."""
        return TransactionalProducer(
            self,
            lambda: open_transactional_producer(
                self.there(), transactional_id, codec=codec, transaction_seconds=transaction_seconds
            ),
        )

    def group_consumer(
        self,
        group_id: str,
        topics: Sequence[str] = (),
        *,
        reset: int = LATEST,
        isolation: int = READ_UNCOMMITTED,
        instance_id: str | None = None,
        max_poll_seconds: float = MAX_POLL_SECONDS,
        commits: bool = True,
        protocol: str = CLASSIC,
        pattern: str | None = None,
    ) -> GroupConsumer:
        """Open a consumer like `kraft.clients.open_group_consumer`."""
        return GroupConsumer(
            self,
            lambda: open_group_consumer(
                self.there(),
                group_id,
                topics,
                reset=reset,
                isolation=isolation,
                instance_id=instance_id,
                max_poll_seconds=max_poll_seconds,
                commits=commits,
                protocol=protocol,
                pattern=pattern,
            ),
        )

    def share_consumer(self, group_id: str, topics: Sequence[str], **options: Unpack[ShareOptions]) -> ShareConsumer:
        """Open a consumer like `kraft.clients.open_share_consumer`."""
        return ShareConsumer(self, lambda: open_share_consumer(self.there(), group_id, topics, **options))

    def consumer(
        self, positions: Mapping[TopicPartition, int], *, reset: int | None = None, isolation: int = READ_UNCOMMITTED
    ) -> Consumer:
        """Return a consumer like `kraft.clients.Consumer`, of partitions that the caller chooses, starting at these
        offsets."""
        return Consumer(self, dict(positions), reset, isolation)

    def there(self) -> TrioCluster:
        """The trio client's cluster. Raises KraftError if it is not connected."""
        if self._cluster is None:
            raise KraftError("the cluster is not connected: use it within `async with connect(...)`")
        return self._cluster

    @property
    def bridge(self) -> AsyncioBridge:
        """The bridge to the client's loop."""
        if self._bridge is None:
            raise KraftError("the cluster is not connected: use it within `async with connect(...)`")
        return self._bridge

    @property
    def nursery(self) -> trio.Nursery:
        """The nursery of the client's loop, for tasks that live as long as the connection."""
        assert self._nursery is not None, "asked for on the client's loop"
        return self._nursery

    async def on_loop(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run a function on the client's trio loop. Returns and raises as the function does."""
        return await self.bridge.run(function)


def connect(
    bootstrap: str | Sequence[str] = "127.0.0.1:9092",
    *,
    config: Mapping[str, str] | None = None,
    client_id: str = "kraft-python",
    timeout: float = 30.0,
) -> Cluster:
    """Connect like `kraft.clients.connect`, for asyncio. Raises the same errors."""
    make = partial(clients.connect, bootstrap, config=config, client_id=client_id, timeout=timeout)
    make()  # What cannot be used is said here.
    return Cluster(make)


class Producer(Generic[S]):
    """A producer created by `Cluster.producer`. When its block ends without an exception, all records are acknowledged
    or have failed."""

    def __init__(self, cluster: Cluster, make: Callable[[], AbstractAsyncContextManager[S]]) -> None:
        self._cluster = cluster
        self._context: RemoteContext[S] = RemoteContext(cluster, make)
        self._ferry: RecordBridge | None = None

    async def __aenter__(self) -> Self:
        await self._context.enter()
        ferry = self._ferry = RecordBridge(self._context.value.send, self._cluster.bridge)

        async def stop_with_it() -> None:
            ferry.stop(await self._context.ended() or _not_known())

        async def begin() -> None:
            self._cluster.nursery.start_soon(ferry.run)
            self._cluster.nursery.start_soon(stop_with_it)

        try:
            await self._cluster.on_loop(begin)
        except BaseException:
            await self._context.leave(fails=True)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        ferry, self._ferry = self._open_ferry(), None
        fails = True
        try:
            if kind is None:
                await ferry.settled()
                fails = False
        finally:
            self._cluster.bridge.tell(ferry.stop, _not_known())
            await self._context.leave(fails=fails)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> asyncio.Future[Sent]:
        """Queue a record, waiting for buffer space if necessary. The future resolves to the record's position once it
        is acknowledged, or raises ApiError or DeadlinePassed if it failed. The future need not be awaited."""
        ferry = self._open_ferry()
        if ferry.is_full:
            await ferry.room()
        elif ferry.is_long:
            await asyncio.sleep(0)  # Others have their turn, and what waits goes over.
        return ferry.put(topic, value, key, partition, headers, timestamp)

    async def send_values(
        self, topic: str, values: Sequence[bytes], *, partition: int | None = None
    ) -> list[TopicPartition]:
        """Send many values without keys and headers, and wait until they are acknowledged, at a fraction of the cost of
        `send` for each. Returns their partitions. Raises ApiError or DeadlinePassed for the first value that failed;
        other values may be stored. Not available in a transaction."""
        producer = self._context.value
        if isinstance(producer, Transaction):
            raise KraftError("a transaction sends record by record: use `send`")

        async def send() -> list[TopicPartition]:
            deliveries = await producer.send_values(topic, values, partition=partition)
            return sorted({(await each.wait()).partition for each in deliveries})

        return await self._cluster.on_loop(send)

    async def flush(self) -> None:
        """Wait until no record is in flight."""
        await self._open_ferry().settled()

    def _open_ferry(self) -> RecordBridge:
        if self._ferry is None:
            raise KraftError("it is not open: use it within `async with`")
        return self._ferry


class TransactionalProducer:
    """A transactional producer created by `Cluster.transactional_producer`."""

    def __init__(
        self, cluster: Cluster, make: Callable[[], AbstractAsyncContextManager[TrioTransactionalProducer]]
    ) -> None:
        self._cluster = cluster
        self._context = RemoteContext(cluster, make)

    async def __aenter__(self) -> Self:
        await self._context.enter()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._context.leave(fails=kind is not None)

    def transaction(self) -> OpenTransaction:
        """Return an asynchronous context manager that commits when the block ends, and aborts when it raises. Raises as
        `kraft.clients.TransactionalProducer.transaction`."""
        return OpenTransaction(self._cluster, self._context.value.transaction)


class OpenTransaction(Producer[Transaction]):
    """An open transaction, created by `TransactionalProducer.transaction`."""

    async def commit_positions(self, consumer: GroupConsumer) -> None:
        """Commit the positions of `consumer` (created with `commits=False`) with the transaction. Raises ApiError,
        DeadlinePassed, and KraftError if a poll whose task was cancelled does not end in time."""
        transaction, member = self._context.value, consumer.member
        unread = await consumer.unread()
        if unread is None:
            raise KraftError("a poll whose task was cancelled has not ended: where the consumer is, is not known")
        await self._cluster.on_loop(lambda: transaction.commit_positions(member, unread))


class Consumer:
    """A consumer created by `Cluster.consumer`. Used by one task at a time."""

    def __init__(
        self, cluster: Cluster, positions: dict[TopicPartition, int], reset: int | None, isolation: int
    ) -> None:
        self._cluster = cluster
        self._wanted = positions
        self._reset = reset
        self._isolation = isolation
        self._polls = PositionPolls(cluster)
        self._consumer: TrioConsumer | None = None
        self._polling: tuple[trio.CancelScope, trio.Event] | None = None

    async def __aenter__(self) -> Self:
        async def begin() -> TrioConsumer:
            consumer = TrioConsumer(self._cluster.there(), reset=self._reset, isolation=self._isolation)
            consumer.assign(self._wanted)
            return consumer

        self._consumer = await self._cluster.on_loop(begin)
        return self

    async def __aexit__(self, *_: object) -> None:
        consumer, self._consumer = self._there, None

        async def end() -> None:
            await self._end_poll()
            consumer.assign({})

        await self._cluster.on_loop(end)
        self._polls.end()

    @property
    def _there(self) -> TrioConsumer:
        if self._consumer is None:
            raise KraftError("it is not open: use it within `async with`")
        return self._consumer

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        return {**self._there.positions, **self._polls.unread}

    @property
    def obstacle(self) -> Exception | None:
        """The error because of which the last poll could not fetch, as in `kraft.clients.Consumer`."""
        return self._there.obstacle

    def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Iterate over records without end. Records that an iteration has not returned are returned by the next
        `poll`."""
        return self

    async def __anext__(self) -> ConsumedRecord:
        return await self._polls.next(self.poll)

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading at this offset; records of the partition found by a cancelled poll are dropped. Raises
        KeyError if the partition is not assigned."""
        consumer = self._there
        if partition not in consumer.assigned:
            raise KeyError(partition)

        async def go() -> None:
            await self._end_poll()
            consumer.seek(partition, offset)

        await self._cluster.on_loop(go)
        await self._polls.pass_over(partition)

    async def poll(self, seconds: float = POLL_SECONDS) -> list[ConsumedRecord]:
        """Poll as `kraft.clients.Consumer.poll` does. If the task is cancelled, it behaves as `GroupConsumer.poll`."""
        consumer = self._there
        if self._polls.is_under_way:
            return await self._polls.poll(lambda: consumer.poll(seconds))
        scope, ended = self._polling = trio.CancelScope(), trio.Event()

        async def poll() -> list[ConsumedRecord]:
            try:
                with scope:
                    return await consumer.poll(seconds)
                return []
            finally:
                ended.set()

        return await self._polls.poll(poll)

    async def _end_poll(self) -> None:
        """End the poll whose task was cancelled, on the client's loop: it would advance the position from where it
        started."""
        if self._polling is not None:
            scope, ended = self._polling
            scope.cancel()
            await ended.wait()


def _not_known() -> KraftError:
    return KraftError("the producer has ended before the record was acknowledged: it may be stored, or not")
