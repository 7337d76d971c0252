"""A running group coordinator for tests: memory world, memory log, mock clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.common.internal_topics import OFFSETS_TOPIC
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.service.group_coordinator import GroupCoordinator
from kraft.coordinator.group.shard_state import OffsetAndMetadata
from kraft.coordinator.share.share_state import NO_COUNT, NO_OFFSET, SharePartitionKey, StateBatch
from kraft.coordinator.share.share_states import ReadState, ShareStates, StateSummary
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.unit.coordinator.fakes import (
    MemoryLog,
    MemoryWorld,
    PlainConsumerConfigs,
    PlainShareConfigs,
    PlainStreamsConfigs,
    Topics,
)
from tests.unit.coordinator.group_host import TestCaller, commit_request

PARTITIONS = 4
CALLER = TestCaller(9)


class AllVerified:
    """`TransactionPartitions` of a coordinator that confirms everything; `codes` are the refusals to come. Answers wait
    for `gate`, if there is one."""

    is_required = True

    def __init__(self) -> None:
        self.codes: dict[tuple[str, int], int] = {}
        self.asked: list[tuple[str, int, int, bool]] = []
        self.gate: trio.Event | None = None

    def confirms(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> bool:
        return False

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
    ) -> Mapping[tuple[str, int], int]:
        self.asked.append((transactional_id, producer_id, producer_epoch, add))
        if self.gate is not None:
            await self.gate.wait()
        return {place: self.codes[place] for place in partitions if place in self.codes}


class KnownShareStates(ShareStates):
    """Share coordinators that answer at once. `refusals` are raised first, one for each request."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, StateSummary] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.refusals: list[ApiError] = []

    async def _answer(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.refusals:
            raise self.refusals.pop(0)

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        await self._answer()
        self.states[key] = StateSummary(state_epoch, 0, start_offset, NO_COUNT if start_offset == NO_OFFSET else 0)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState:
        await self._answer()
        return ReadState(self.states[key].state_epoch, self.states[key].start_offset, ())

    async def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        await self._answer()
        self.states[key] = StateSummary(state_epoch, leader_epoch, start_offset, delivery_complete_count)

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        await self._answer()
        return self.states.get(key, StateSummary(0, 0, NO_OFFSET, NO_COUNT))

    async def delete(self, key: SharePartitionKey) -> None:
        await self._answer()
        self.states.pop(key, None)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        await trio.lowlevel.checkpoint()
        return {place: self.ends[place] for place in partitions if place in self.ends}


class Service:
    """One node's coordinator, with what a test needs to meddle."""

    def __init__(self, log: MemoryLog, config: GroupCoordinatorConfig | None = None, seed: int = 1) -> None:
        self.log = log
        self.world = MemoryWorld(seed)
        self.topics = Topics("t", "u")
        self.transactions = AllVerified()
        self.consumer_configs = PlainConsumerConfigs()
        self.share_configs = PlainShareConfigs()
        self.streams_configs = PlainStreamsConfigs()
        self.share_states = KnownShareStates()
        self.coordinator = GroupCoordinator(
            config=config or GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0),
            log=log,
            topics=self.topics,
            transactions=self.transactions,
            consumer_configs=self.consumer_configs,
            share_configs=self.share_configs,
            streams_configs=self.streams_configs,
            partition_count=lambda: PARTITIONS,
            share_states=self.share_states,
            end_offsets=self.share_states.end_offsets,
            world=self.world,  # type: ignore[arg-type]  # As much of a world as coordinators use.
        )

    def partition(self, group_id: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, self.coordinator.partition_for(group_id))

    async def lead(self, epoch: int = 1) -> None:
        """Become leader of every partition and wait until all are loaded."""
        for partition in range(PARTITIONS):
            self.coordinator.on_election(partition, epoch)
        await trio.testing.wait_all_tasks_blocked()


def neighbour(service: Service, group: str) -> str:
    """Another group in the same partition."""
    return next(name for name in map(str, range(99)) if service.partition(name) == service.partition(group))


@asynccontextmanager
async def serving(
    log: MemoryLog | None = None, config: GroupCoordinatorConfig | None = None, lead: bool = True
) -> AsyncIterator[Service]:
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


def code_of(response: Any) -> int:
    """Of the answer to `commit`."""
    return response.topics[0].partitions[0].error_code


async def commit(service: Service, offset: int, group: str = "g") -> Any:
    """OffsetCommit of t-0."""
    return await service.coordinator.offset_commit(commit_request(group, {("t", 0): offset}), CALLER)


async def committed(service: Service, group: str = "g", require_stable: bool = False) -> int:
    """What the group has committed for t-0, as OffsetFetch tells."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=require_stable
    )
    response = await service.coordinator.offset_fetch(request, CALLER)
    assert response.groups[0].error_code == 0
    return response.groups[0].topics[0].partitions[0].committed_offset


def write_offsets(count: int, metadata: str, prefix: str = "") -> Callable[[Any], str]:
    """An operation of the runtime that commits `count` partitions with large metadata."""
    topic = f"{prefix}t"

    def operation(draft: Any) -> str:
        for index in range(count):
            draft.write_offsets("g", [(TopicPartition(topic, index), OffsetAndMetadata(1, -1, metadata, 0))])
        return "written"

    return operation
