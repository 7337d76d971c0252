"""Deadlines fall due also while every append waits for a disk and the next batch is there before it ends."""

from __future__ import annotations

from collections.abc import Sequence

import trio
import trio.testing

from kraft.common.ids import TopicPartition
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from kraft.coordinator.shard import LogRecord, Producer
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.group_host import TestCaller, commit_request, join_request
from tests.unit.coordinator.service import Service, ask, run, serving

FSYNC_S = 0.02
GROUPS = ("a", "e", "i")
"""Groups of one shard."""
MANY = 300


class SyncingLog(MemoryLog):
    """Each append takes as long as a disk does: log.flush.interval.messages=1."""

    def __init__(self) -> None:
        super().__init__()
        self.takes_at_once = False

    async def append(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        records: Sequence[LogRecord],
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> int:
        await trio.sleep(FSYNC_S)
        return await super().append(partition, leader_epoch, records, timestamp_ms, producer)


async def commit_without_end(service: Service, group: str) -> None:
    offset = 0
    while True:
        offset += 1
        await service.coordinator.offset_commit(commit_request(group, {("t", 0): offset}), TestCaller(9))


async def commit_twice_an_append(service: Service, nursery: trio.Nursery) -> None:
    """From now on a batch collects whenever one is being appended."""
    assert len({service.partition(group) for group in GROUPS}) == 1
    for group in GROUPS[:2]:
        nursery.start_soon(commit_without_end, service, group)
        await trio.sleep(FSYNC_S / 3)


def test_the_first_rebalance_of_a_group_completes_while_other_groups_commit():
    async def scenario():
        config = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=100)
        async with serving(SyncingLog(), config=config) as service, trio.open_nursery() as nursery:
            await commit_twice_an_append(service, nursery)
            joining = ask(nursery, service.coordinator.join_group(join_request(GROUPS[2]), TestCaller(3)))
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
            assert joining.answered
            assert joining.response.generation_id == 1

    run(scenario)


def test_a_commit_delayed_by_replication_times_out_while_other_groups_commit():
    async def scenario():
        log = SyncingLog()
        async with serving(log) as service, trio.open_nursery() as nursery:
            log.held = True
            pending = ask(
                nursery, service.coordinator.offset_commit(commit_request(GROUPS[1], {("t", 0): 1}), TestCaller(9))
            )
            nursery.start_soon(ask_without_end, service, nursery)
            await trio.sleep(6)
            nursery.cancel_scope.cancel()
            assert pending.answered
            assert pending.response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(scenario)


async def ask_without_end(service: Service, nursery: trio.Nursery) -> None:
    """Commits that do not wait for the answers of those before."""
    for offset in range(10_000):
        ask(nursery, service.coordinator.offset_commit(commit_request(GROUPS[0], {("t", 0): offset}), TestCaller(9)))
        await trio.sleep(FSYNC_S / 2)


def settle_many(draft: GroupDraft) -> None:
    """Groups with a member each, whose sessions begin together when the shard is loaded."""
    for number in range(MANY):
        member = MemberMetadata(
            member_id="m", client_id="c", client_host="/h", session_timeout=10_000, rebalance_timeout=10_000
        )
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader="m",
            current_state_timestamp=1,
            members=[member],
        )
        draft.write_group(f"group-{number}", value)


def test_simultaneous_session_timeouts_are_processed_in_bounded_steps():
    async def scenario():
        log = MemoryLog()
        async with serving(log) as service:
            partition = service.partition("g")
            await service.coordinator.runtime.write(partition.partition, settle_many)
        async with serving(log) as successor:
            before = len(log.batches[partition])
            await trio.sleep(11)
            assert set(successor.coordinator.group_states().values()) == {"Empty"}
            written = [len(batch.entries) for batch in log.batches[partition][before:]]
            assert sum(written) == MANY
            assert max(written) <= 64

    run(scenario)
