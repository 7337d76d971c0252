"""A transaction coordinator over a log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio
import trio.testing

from kraft.common.ids import TopicPartition
from kraft.coordinator.transaction.config import TransactionConfig
from kraft.coordinator.transaction.transaction import Ending
from kraft.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from tests.unit.coordinator.fakes import MemoryLog, MemoryWorld

PLACE = TopicPartition("t", 0)


class Markers:
    """`MarkerWriter` and `ProducerIds`: markers are asked for, and written once `reachable` is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[Ending, int]] = []
        self.reachable = trio.Event()

    async def write(self, ending: Ending, coordinator_epoch: int, is_current: Callable[[], bool]) -> bool:
        self.asked.append((ending, coordinator_epoch))
        await self.reachable.wait()
        return is_current()

    async def next(self) -> int:
        return 7


@asynccontextmanager
async def coordinating(
    log: MemoryLog,
    markers: Markers,
    epoch: int,
    world: MemoryWorld | None = None,
    config: TransactionConfig | None = None,
) -> AsyncIterator[TransactionCoordinator]:
    coordinator = TransactionCoordinator(
        config=config or TransactionConfig(),
        log=log,
        producer_ids=markers,
        markers=markers,
        partition_count=lambda: 1,
        level=lambda: 2,
        world=world or MemoryWorld(),  # type: ignore[arg-type]  # As much of a world as coordinators use.
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(coordinator.run)
        coordinator.on_election(0, epoch)
        await trio.testing.wait_all_tasks_blocked()
        yield coordinator
        nursery.cancel_scope.cancel()
