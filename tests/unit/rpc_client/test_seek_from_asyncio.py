"""Seeks from asyncio after a poll whose task was cancelled."""

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
from kraft.common.ids import TopicPartition

SOUGHT, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class SlowConsumer:
    """A consumer of the client's loop: a poll finds a record of each partition at its position once it may, and moves
    on."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.may = trio.Event()

    def assign(self, positions: dict[TopicPartition, int]) -> None:
        self.positions = dict(positions)

    @property
    def assigned(self) -> list[TopicPartition]:
        return sorted(self.positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    async def poll(self, _: float) -> list[Any]:
        found = [
            SimpleNamespace(partition=each, record=SimpleNamespace(offset=at)) for each, at in self.positions.items()
        ]
        await self.may.wait()
        self.positions = {each.partition: each.record.offset + 1 for each in found}
        return found


@asynccontextmanager
async def nothing() -> AsyncIterator[Any]:
    yield SimpleNamespace()


def after_a_cancelled_poll(
    monkeypatch: pytest.MonkeyPatch, body: Callable[[aio.Cluster, aio.Consumer], Awaitable[None]]
) -> None:
    monkeypatch.setattr(aio, "TrioConsumer", SlowConsumer)

    async def main() -> None:
        async with aio.Cluster(nothing) as cluster:  # type: ignore[arg-type]
            async with cluster.consumer({SOUGHT: 5, OTHER: 50}) as consumer:
                polling = asyncio.ensure_future(consumer.poll())
                await asyncio.sleep(0)
                polling.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await polling
                await body(cluster, consumer)

    asyncio.run(asyncio.wait_for(main(), 10.0))


async def polled(consumer: aio.Consumer) -> list[tuple[int, int]]:
    return [(each.partition.partition, each.record.offset) for each in await consumer.poll()]


async def let_go(cluster: aio.Cluster, consumer: aio.Consumer) -> None:
    async def let() -> None:
        consumer._there.may.set()  # type: ignore[attr-defined]
        await trio.testing.wait_all_tasks_blocked()

    await cluster.on_loop(let)


def test_records_fetched_before_a_seek_are_not_returned_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(cluster: aio.Cluster, consumer: aio.Consumer) -> None:
        await let_go(cluster, consumer)
        await consumer.seek(SOUGHT, 3)
        assert await polled(consumer) == [(1, 50)]
        assert await polled(consumer) == [(0, 3), (1, 51)]

    after_a_cancelled_poll(monkeypatch, body)


def test_a_seek_overrides_the_poll_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(cluster: aio.Cluster, consumer: aio.Consumer) -> None:
        await consumer.seek(SOUGHT, 3)
        await let_go(cluster, consumer)
        assert await polled(consumer) == [(0, 3), (1, 50)]

    after_a_cancelled_poll(monkeypatch, body)


def test_a_seek_within_an_iteration_overrides_what_it_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(cluster: aio.Cluster, consumer: aio.Consumer) -> None:
        await let_go(cluster, consumer)
        assert (await anext(consumer)).record.offset == 5
        assert consumer.positions == {SOUGHT: 6, OTHER: 50}
        await consumer.seek(SOUGHT, 3)
        assert await polled(consumer) == [(1, 50)]
        await consumer.seek(OTHER, 7)
        assert await polled(consumer) == [(0, 3), (1, 7)]

    after_a_cancelled_poll(monkeypatch, body)
