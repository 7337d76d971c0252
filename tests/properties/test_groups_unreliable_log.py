"""The coordinator over a log that fails, hesitates, replicates late, and moves.

What was acknowledged is in the log, and what the coordinator believes is what the log says.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.common.errors import ApiError, StorageError
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.group_shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.fakes import MemoryLog, PlainConsumerConfigs, PlainShareConfigs, PlainStreamsConfigs, Topics
from tests.unit.coordinator.group_host import (
    TestCaller,
    commit_request,
    heartbeat_request,
    join_request,
    rebuild,
    sync_request,
)
from tests.unit.coordinator.service import PARTITIONS, Service, ask, run, serving

EXAMPLES = 1500 if os.environ.get("KRAFT_SOAK") else 60
STEPS = 60
GROUPS = ("g", "h", "i")
UNSURE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Member:
    """A client that follows the protocol as far as the answers let it."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.settled = False


class Story:
    """Random requests against a running coordinator while its log misbehaves. Offsets only rise, so that lost and
    regressed commits show."""

    def __init__(self, service: Service, source: Random, nursery: trio.Nursery) -> None:
        self.service = service
        self.source = source
        self.nursery = nursery
        self.next_offset = 1
        self.acknowledged: dict[str, int] = {}
        self.attempted: dict[str, int] = {}
        self.members = [Member(group) for group in GROUPS[:2] for _ in range(2)]
        self.epoch = 1

    async def step(self) -> None:
        name = self.source.choices(
            ["commit", "join", "sync", "beat", "fail", "hold", "release", "gate", "open", "move", "sleep"],
            [20, 12, 12, 6, 8, 4, 8, 4, 8, 2, 8],
        )[0]
        await getattr(self, name)()
        for _ in range(self.source.randrange(4)):
            await trio.lowlevel.checkpoint()

    async def commit(self) -> None:
        ask(self.nursery, self._commit(GROUPS[2]))

    async def _commit(self, group: str) -> bool:
        # The operation runs before the first await below, so offsets are given out in the order in which commits are
        # made.
        offset, self.next_offset = self.next_offset, self.next_offset + 1
        self.attempted[group] = max(self.attempted.get(group, 0), offset)
        response = await self.service.coordinator.offset_commit(
            commit_request(group, {("t", 0): offset}), TestCaller(9)
        )
        code = response.topics[0].partitions[0].error_code
        assert code == 0 or code in UNSURE, code
        if code == 0:
            self.acknowledged[group] = max(self.acknowledged.get(group, 0), offset)
        return True

    async def join(self) -> None:
        ask(self.nursery, self._join(self.source.choice(self.members)))

    async def _join(self, member: Member) -> bool:
        response = await self.service.coordinator.join_group(
            join_request(member.group, member.member_id, rebalance_ms=8_000), TestCaller(9)
        )
        if response.error_code in (0, ErrorCode.MEMBER_ID_REQUIRED):
            member.member_id, member.generation = response.member_id, response.generation_id
        elif response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            member.member_id, member.generation = "", -1
        return True

    async def sync(self) -> None:
        ask(self.nursery, self._sync(self.source.choice(self.members)))

    async def _sync(self, member: Member) -> bool:
        everybody = {
            each.member_id: f"{each.member_id}@{member.generation}".encode()
            for each in self.members
            if each.group == member.group and each.member_id
        }
        member_id, generation = member.member_id, member.generation
        response = await self.service.coordinator.sync_group(
            sync_request(member.group, member_id, generation, everybody), TestCaller(4)
        )
        if response.error_code == 0 and response.assignment:
            assert bytes(response.assignment) == f"{member_id}@{generation}".encode(), (
                "an assignment of another member or generation"
            )
        return True

    async def beat(self) -> None:
        member = self.source.choice(self.members)
        ask(
            self.nursery,
            self.service.coordinator.heartbeat(
                heartbeat_request(member.group, member.member_id, member.generation), TestCaller(4)
            ),
        )

    async def fail(self) -> None:
        self.service.log.fail_next.append(
            self.source.choice((ApiError(ErrorCode.NOT_ENOUGH_REPLICAS), StorageError("disk")))
        )

    async def hold(self) -> None:
        self.service.log.held = True

    async def release(self) -> None:
        self.service.log.held = False
        for partition in sorted(self.service.log.batches):
            self.service.log.replicate(partition)

    async def gate(self) -> None:
        if self.service.log.gate is None:
            self.service.log.gate = trio.Event()

    async def open(self) -> None:
        gate, self.service.log.gate = self.service.log.gate, None
        if gate is not None:
            gate.set()

    async def move(self) -> None:
        self.epoch += 1
        partition = self.source.randrange(PARTITIONS)
        if self.source.random() < 0.5:
            self.service.coordinator.on_resignation(partition, self.epoch)
            self.epoch += 1
        self.service.coordinator.on_election(partition, self.epoch)

    async def sleep(self) -> None:
        await trio.sleep(self.source.choice((0.01, 0.6, 3, 9)))

    async def settle(self) -> None:
        """Let everything that is on its way arrive."""
        self.service.log.fail_next.clear()
        await self.open()
        await self.release()
        await trio.sleep(8)


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**32 - 1))
def test_acknowledged_writes_persist_and_the_state_equals_the_replayed_log(seed):
    async def story() -> Any:
        config = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=100)
        async with serving(MemoryLog(), config) as service, trio.open_nursery() as nursery:
            tale = Story(service, Random(seed), nursery)
            for _ in range(STEPS):
                await tale.step()
            await tale.settle()
            check(tale, config)
            nursery.cancel_scope.cancel()

    run(story)


def check(tale: Story, config: GroupCoordinatorConfig) -> None:
    runtime = tale.service.coordinator.runtime
    shard = GroupShard(config, Topics(), PlainConsumerConfigs(), PlainShareConfigs(), PlainStreamsConfigs())
    offsets: dict[str, int] = {}
    for partition in range(PARTITIONS):
        assert runtime.is_active(partition)
        driver = runtime._drivers[partition]
        records = [
            (record.key, record.value)
            for batch in tale.service.log.batches.get(driver.partition, [])
            for record in batch.entries
        ]
        again = rebuild(shard, records)
        assert again.offsets == driver.state.offsets == driver.committed_state.offsets
        assert sorted(again.groups) == sorted(driver.state.groups), (
            "a group that the log does not know, or the other way round"
        )
        for group_id in sorted(again.offsets):
            offsets[group_id] = next(iter(again.offsets[group_id].values())).offset
    for group_id, offset in tale.acknowledged.items():
        assert offset <= offsets.get(group_id, -1) <= tale.attempted[group_id], "an acknowledged commit is lost"
