"""Polls from asyncio whose tasks are cancelled: what they have found is given all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.clients import aio, polls
from kraft.common.errors import KraftError


class Positions:
    """As much of a `Consumer` as goes back."""

    def __init__(self) -> None:
        self.positions = {"t-0": 9}

    def seek(self, partition: str, offset: int) -> None:
        self.positions[partition] = offset


class SlowConsumer:
    """A consumer of the client's loop: each poll finds two records once it may."""

    def __init__(self) -> None:
        self.consumer = Positions()
        self.may = asyncio.Event()
        self.polls = 0
        self.committed: list[int] = []
        self.fails = False
        self.is_rewound = False

    async def commit(self, unread: Mapping[str, int]) -> bool:
        self.committed.append({**self.consumer.positions, **unread}["t-0"])
        return True

    async def poll(self, _: float) -> list[Any]:
        self.polls += 1
        self.is_rewound = False
        first = 5 + 2 * self.polls
        await self.may.wait()
        if self.fails:
            raise KraftError("not now")
        self.consumer.positions["t-0"] = first + 2
        return [SimpleNamespace(partition="t-0", record=SimpleNamespace(offset=first + each)) for each in (0, 1)]


class OneLoop:
    """As much of a `Cluster` as consumers use; its loop is ours."""

    async def on_loop(self, function: Callable[[], Awaitable[Any]]) -> Any:
        return await function()


class Left:
    """A `RemoteContext` that records how it was left."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.failed: list[bool] = []

    async def enter(self) -> None: ...

    async def leave(self, *, fails: bool) -> None:
        self.failed.append(fails)


def group_consumer() -> tuple[Any, SlowConsumer, Left]:
    slow = SlowConsumer()
    consumer: Any = aio.GroupConsumer(OneLoop(), SimpleNamespace)  # type: ignore[arg-type]
    held = consumer._context = Left(slow)
    return consumer, slow, held


async def offsets(consumer: Any) -> list[int]:
    return [each.record.offset for each in await consumer.poll()]


async def cancelled_poll(consumer: Any) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.poll(), 0)
    polling = asyncio.ensure_future(consumer.poll())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling


def test_records_found_by_a_cancelled_poll_are_returned_by_the_next() -> None:
    async def main() -> None:
        consumer, slow, held = group_consumer()
        async with consumer:
            await cancelled_poll(consumer)
            slow.may.set()
            assert await offsets(consumer) == [7, 8]
            assert await offsets(consumer) == [9, 10]
        assert held.failed == [False]

    asyncio.run(main())


def test_a_closing_consumer_commits_only_up_to_records_it_returned() -> None:
    async def main() -> None:
        consumer, slow, held = group_consumer()
        async with consumer:
            await cancelled_poll(consumer)
            slow.may.set()
        assert held.failed == [False], "what was given before is committed"
        assert slow.consumer.positions == {"t-0": 7}

    asyncio.run(main())


def test_nothing_is_committed_when_the_returned_position_is_not_known_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polls, "GIVE_BACK_SECONDS", 0.0)

    async def main() -> None:
        consumer, _, held = group_consumer()
        async with consumer:
            await cancelled_poll(consumer)
        assert held.failed == [True]

    asyncio.run(main())


class Transaction:
    """As much of a transaction of the client's loop as commits positions."""

    async def commit_positions(self, member: SlowConsumer, unread: Mapping[str, int]) -> None:
        await member.commit(unread)


def open_transaction() -> Any:
    transaction: Any = aio.OpenTransaction(OneLoop(), SimpleNamespace)  # type: ignore[arg-type]
    transaction._context = Left(Transaction())
    return transaction


def test_a_commit_covers_the_returned_records(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        consumer, slow, _ = group_consumer()
        transaction = open_transaction()
        for commit in (consumer.commit, lambda: transaction.commit_positions(consumer)):
            slow.may.clear()
            await cancelled_poll(consumer)
            slow.may.set()
            await commit()
        assert slow.committed == [7, 9], "and not what the cancelled polls have found"
        monkeypatch.setattr(polls, "GIVE_BACK_SECONDS", 0.0)
        slow.may.clear()
        await cancelled_poll(consumer)
        assert not await consumer.commit(), "where that poll is, nobody knows yet"
        with pytest.raises(KraftError):
            await transaction.commit_positions(consumer)
        assert slow.committed == [7, 9]
        slow.may.set()
        assert await offsets(consumer) == [11, 12], "it goes on"

    asyncio.run(main())


def test_a_poll_after_a_failed_poll_works() -> None:
    async def main() -> None:
        consumer, slow, _ = group_consumer()
        slow.may.set()
        slow.fails = True
        with pytest.raises(KraftError):
            await consumer.poll()
        slow.fails = False
        assert await offsets(consumer) == [9, 10]

    asyncio.run(main())


def test_a_commit_within_an_iteration_covers_only_the_records_that_it_returned() -> None:
    async def main() -> None:
        consumer, slow, _ = group_consumer()
        slow.may.set()
        transaction = open_transaction()
        seen: list[int] = []
        async for each in consumer:
            seen.append(each.record.offset)
            assert consumer.positions == {"t-0": seen[-1] + 1}
            await (consumer.commit() if len(seen) % 2 else transaction.commit_positions(consumer))
            if len(seen) == 3:
                break
        assert seen == [7, 8, 9]
        assert slow.committed == [8, 9, 10]

    asyncio.run(main())


@pytest.mark.parametrize("polls_on", [False, True])
def test_records_that_an_abandoned_iteration_has_not_returned_are_not_committed(*, polls_on: bool) -> None:
    async def main() -> None:
        consumer, slow, held = group_consumer()
        slow.may.set()
        async with consumer:
            async for _ in consumer:
                break
            if polls_on:
                assert await offsets(consumer) == [8]
        assert held.failed == [False], "the records that were returned are committed"
        assert slow.consumer.positions == {"t-0": 9 if polls_on else 8}

    asyncio.run(main())


def test_an_iteration_starts_again_at_the_committed_offset_after_an_aborted_transaction() -> None:
    async def main() -> None:
        consumer, slow, _ = group_consumer()
        slow.may.set()
        iteration = aiter(consumer)
        assert (await anext(iteration)).record.offset == 7
        slow.is_rewound, slow.polls = True, 0
        assert (await anext(iteration)).record.offset == 7
        slow.is_rewound, slow.polls = True, 0
        assert await offsets(consumer) == [7, 8]

    asyncio.run(main())
