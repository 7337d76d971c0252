"""A running group coordinator for tests: memory world, memory log, mock clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from kraft.common.ids import TopicPartition
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from tests.unit.coordinator.fakes import MemoryLog, MemoryWorld, Topics

PARTITIONS = 4


class Service:
    """One node's coordinator, with what a test needs to meddle."""

    def __init__(self, log: MemoryLog, config: GroupCoordinatorConfig | None = None, seed: int = 1) -> None:
        self.log = log
        self.world = MemoryWorld(seed)
        self.topics = Topics("t", "u")
        self.coordinator = GroupCoordinator(
            config=config or GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0),
            log=log,
            topics=self.topics,
            partition_count=lambda: PARTITIONS,
            world=self.world,  # type: ignore[arg-type]  # As much of a world as coordinators use.
        )

    def partition(self, group_id: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, self.coordinator.partition_for(group_id))

    async def lead(self, epoch: int = 1) -> None:
        """Become leader of every partition and wait until all are loaded."""
        for partition in range(PARTITIONS):
            self.coordinator.on_election(partition, epoch)
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def serving(log: MemoryLog | None = None, config: GroupCoordinatorConfig | None = None, lead: bool = True) -> AsyncIterator[Service]:
    service = Service(log or MemoryLog(), config)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.coordinator.run)
        if lead:
            await service.lead()
        yield service
        nursery.cancel_scope.cancel()


def run(test: Callable[[], Awaitable[Any]]) -> Any:
    """Run an async test under a clock that jumps whenever everybody waits."""
    return trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))


class Pending:
    """A request in flight in a task of its own."""

    def __init__(self) -> None:
        self.response: Any = None
        self.scope = trio.CancelScope()

    @property
    def answered(self) -> bool:
        return self.response is not None


def ask(nursery: trio.Nursery, request: Awaitable[Any]) -> Pending:
    pending = Pending()

    async def wait() -> None:
        with pending.scope:
            pending.response = await request

    nursery.start_soon(wait)
    return pending
