"""What asyncio's side hears when something on the client's loop ends before its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from kraft.clients import aio
from kraft.clients.record_bridge import Sent
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.rpc_client.accumulator import Delivery

LIMIT_SECONDS = 10.0


class Silent:
    """A producer of the client's loop whose records are never acknowledged; "bad" is one that it cannot send."""

    def __init__(self) -> None:
        self.fail = trio.Event()
        self.left: list[str] = []

    async def send(self, topic: str, value: bytes | None, key: bytes | None = None, **_: Any) -> Delivery:
        if value == b"bad":
            raise LookupError("cannot be sent")
        delivery = Delivery(TopicPartition(topic, 0), 0)
        if value == b"good":
            delivery.succeed(7, -1)
        return delivery

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Silent]:
        async def run() -> None:
            await self.fail.wait()
            raise LookupError("the sender has died")

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                yield self
                nursery.cancel_scope.cancel()
        finally:
            self.left.append("left")


@asynccontextmanager
async def nothing() -> AsyncIterator[Any]:
    yield SimpleNamespace()


def in_a_cluster(body: Callable[[aio.Cluster, aio.Producer[Any], Silent], Awaitable[None]]) -> None:
    async def main() -> None:
        silent = Silent()
        async with aio.Cluster(nothing) as cluster:
            await body(cluster, aio.Producer(cluster, silent.open), silent)  # type: ignore[arg-type]

    asyncio.run(asyncio.wait_for(main(), LIMIT_SECONDS))


async def problem_of(future: asyncio.Future[Sent]) -> BaseException | None:
    with pytest.raises(Exception) as caught:
        await asyncio.wait_for(future, 2.0)
    return caught.value


def test_a_record_that_cannot_be_sent_fails_alone() -> None:
    async def body(_: aio.Cluster, producer: aio.Producer[Any], __: Silent) -> None:
        async with producer:
            bad, good = await producer.send("t", b"bad"), await producer.send("t", b"good")
            assert isinstance(await problem_of(bad), LookupError)
            assert (await good).offset == 7

    in_a_cluster(body)


def test_pending_calls_fail_when_the_producer_dies() -> None:
    async def body(cluster: aio.Cluster, producer: aio.Producer[Any], silent: Silent) -> None:
        with pytest.raises(ExceptionGroup):
            async with producer:
                sent = await producer.send("t", b"waits")
                cluster.bridge.tell(silent.fail.set)
                assert isinstance(await problem_of(sent), ExceptionGroup)
                assert isinstance(await problem_of(await producer.send("t", b"late")), ExceptionGroup)
                await asyncio.wait_for(producer.flush(), 2.0)

    in_a_cluster(body)


def test_pending_calls_fail_when_the_producer_block_raises() -> None:
    async def body(_: aio.Cluster, producer: aio.Producer[Any], __: Silent) -> None:
        sent: list[asyncio.Future[Sent]] = []
        with pytest.raises(ZeroDivisionError):
            async with producer:
                sent.append(await producer.send("t", b"waits"))
                raise ZeroDivisionError
        assert isinstance(await problem_of(sent[0]), KraftError)

    in_a_cluster(body)


def test_pending_calls_fail_when_the_client_closes() -> None:
    async def main() -> None:
        producer: aio.Producer[Any]
        async with aio.Cluster(nothing) as cluster:
            producer = aio.Producer(cluster, Silent().open)  # type: ignore[arg-type]
            await producer.__aenter__()
            sent = await producer.send("t", b"waits")
        assert isinstance(await problem_of(sent), KraftError)
        assert isinstance(await problem_of(await producer.send("t", b"late")), KraftError)

    asyncio.run(asyncio.wait_for(main(), LIMIT_SECONDS))


def test_a_producer_whose_opening_or_closing_is_cancelled_is_closed() -> None:
    async def body(cluster: aio.Cluster, producer: aio.Producer[Any], silent: Silent) -> None:
        opening = asyncio.ensure_future(producer.__aenter__())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await cluster.on_loop(trio.testing.wait_all_tasks_blocked)
        assert silent.left == ["left"]
        producer = aio.Producer(cluster, silent.open)  # type: ignore[arg-type]
        await producer.__aenter__()
        await producer.send("t", b"waits")
        ending = asyncio.ensure_future(producer.__aexit__(None, None, None))
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert silent.left == ["left"] * 2

    in_a_cluster(body)


def test_a_connection_whose_opening_is_cancelled_is_closed() -> None:
    async def main() -> None:
        cluster = aio.Cluster(nothing)  # type: ignore[arg-type]
        opening = asyncio.ensure_future(cluster.__aenter__())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert cluster._thread is not None
        await asyncio.get_running_loop().run_in_executor(None, cluster._thread.join, 2.0)
        assert not cluster._thread.is_alive()

    asyncio.run(asyncio.wait_for(main(), LIMIT_SECONDS))
