"""What the share coordinator answers, and what of it a successor finds in the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
import trio.testing

from kraft.common.errors import KraftError, NotLeader
from kraft.common.ids import TopicPartition, uuid_to_text
from kraft.common.internal_topics import SHARE_GROUP_STATE_TOPIC
from kraft.coordinator.share.share_coordinator import (
    ShareCoordinator,
    ShareCoordinatorConfig,
    coordinator_key,
    key_of_name,
)
from kraft.coordinator.share.share_state import SharePartitionKey, ShareState
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import delete_share_group_state_request as deleting
from kraft.protocol.messages import initialize_share_group_state_request as initializing
from kraft.protocol.messages import read_share_group_state_request as reading
from kraft.protocol.messages import read_share_group_state_summary_request as summarizing
from kraft.protocol.messages import write_share_group_state_request as writing
from tests.unit.coordinator.fakes import MemoryLog, MemoryWorld, Topics
from tests.unit.coordinator.service import run

STATE = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)
TOPICS = Topics("t")
TOPIC_ID = TOPICS.topic_id("t") or b""
KEY = SharePartitionKey("g", TOPIC_ID, 0)
UPDATES_MAX = 3
COLD_MS = 300_000
PRUNE_MS = 200_000


class Coordinated:
    """A coordinator with one partition of state, and requests to it that name one share partition each."""

    def __init__(self, coordinator: ShareCoordinator, log: MemoryLog) -> None:
        self.coordinator, self.log = coordinator, log

    async def initialize(self, start_offset: int = 0, state_epoch: int = 0, key: SharePartitionKey = KEY) -> int:
        wanted = initializing.PartitionData(partition=key.partition, state_epoch=state_epoch, start_offset=start_offset)
        topic = initializing.InitializeStateData(topic_id=key.topic_id, partitions=[wanted])
        request = initializing.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        return code_of(await self.coordinator.initialize(request))

    async def write(
        self,
        *batches: tuple[int, int, int, int],
        start_offset: int = 0,
        leader_epoch: int = 0,
        state_epoch: int = 0,
        complete: int = 0,
    ) -> int:
        wanted = writing.PartitionData(
            partition=0,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete,
            state_batches=[
                writing.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        topic = writing.WriteStateData(topic_id=TOPIC_ID, partitions=[wanted])
        return code_of(await self.coordinator.write(writing.WriteShareGroupStateRequest(group_id="g", topics=[topic])))

    async def read(self, leader_epoch: int = 0) -> Any:
        topic = reading.ReadStateData(
            topic_id=TOPIC_ID, partitions=[reading.PartitionData(partition=0, leader_epoch=leader_epoch)]
        )
        response = await self.coordinator.read(reading.ReadShareGroupStateRequest(group_id="g", topics=[topic]))
        return response.results[0].partitions[0]

    async def summary(self) -> Any:
        topic = summarizing.ReadStateSummaryData(topic_id=TOPIC_ID, partitions=[summarizing.PartitionData(partition=0)])
        request = summarizing.ReadShareGroupStateSummaryRequest(group_id="g", topics=[topic])
        return (await self.coordinator.read_summary(request)).results[0].partitions[0]

    async def delete(self) -> int:
        topic = deleting.DeleteStateData(topic_id=TOPIC_ID, partitions=[deleting.PartitionData(partition=0)])
        return code_of(
            await self.coordinator.delete(deleting.DeleteShareGroupStateRequest(group_id="g", topics=[topic]))
        )

    def state(self) -> ShareState | None:
        return self.coordinator.runtime.read(0, lambda shard: shard.partitions.get(KEY))


def code_of(response: Any) -> int:
    return int(response.results[0].partitions[0].error_code)


@asynccontextmanager
async def coordinating(
    log: MemoryLog, epoch: int = 1, pruning_fails: list[KraftError] | None = None
) -> AsyncIterator[Coordinated]:
    def prune(partition: int, before: int) -> None:
        if pruning_fails:
            raise pruning_fails.pop()
        log.starts[STATE] = before
        log.batches[STATE] = [each for each in log.batches[STATE] if each.next_offset > before]

    coordinator = ShareCoordinator(
        config=ShareCoordinatorConfig(
            updates_per_snapshot=UPDATES_MAX,
            cold_snapshot_interval_ms=COLD_MS,
            prune_interval_ms=PRUNE_MS,
            write_timeout_ms=5000,
        ),
        log=log,
        topics=TOPICS,
        partition_count=lambda: 1,
        prune=prune,
        world=MemoryWorld(),  # type: ignore[arg-type]  # As much of a world as coordinators use.
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(coordinator.run)
        coordinator.on_election(0, epoch)
        await trio.testing.wait_all_tasks_blocked()
        yield Coordinated(coordinator, log)
        nursery.cancel_scope.cancel()


def test_a_new_coordinator_loads_the_combined_state_of_all_updates() -> None:
    """The log is not compacted: updates of one key add up, below and above the limit that makes a snapshot."""

    async def scenario() -> None:
        log = MemoryLog()
        async with coordinating(log) as first:
            assert await first.initialize(start_offset=5) == ErrorCode.NONE
            for number in range(2 * UPDATES_MAX + 2):
                offset = 10 + 2 * number
                assert await first.write((offset, offset, 2, 1), start_offset=5, complete=number + 1) == ErrorCode.NONE
            before = first.state()
        async with coordinating(log, epoch=2) as successor:
            assert successor.state() == before
            found = await successor.read(leader_epoch=0)
            assert [each.first_offset for each in found.state_batches] == [10 + 2 * number for number in range(8)]

    run(scenario)


def test_a_share_partition_leader_is_fenced_once_a_later_leader_epoch_has_read() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        async with coordinating(log) as it:
            await it.initialize()
            assert (await it.read(leader_epoch=4)).error_code == ErrorCode.NONE
            assert await it.write((0, 0, 2, 1), leader_epoch=3) == ErrorCode.FENCED_LEADER_EPOCH
            assert (await it.read(leader_epoch=3)).error_code == ErrorCode.FENCED_LEADER_EPOCH
        async with coordinating(log, epoch=2) as successor:
            assert await successor.write((0, 0, 2, 1), leader_epoch=3) == ErrorCode.FENCED_LEADER_EPOCH
            assert await successor.write((0, 0, 2, 1), leader_epoch=4) == ErrorCode.NONE

    run(scenario)


def test_a_new_state_epoch_resets_the_share_state_and_fences_older_writers() -> None:
    async def scenario() -> None:
        async with coordinating(MemoryLog()) as it:
            await it.initialize()
            await it.write((0, 3, 2, 1))
            assert await it.initialize(start_offset=50, state_epoch=2) == ErrorCode.NONE
            assert await it.write((4, 4, 2, 1), state_epoch=1) == ErrorCode.FENCED_STATE_EPOCH
            assert await it.initialize(start_offset=0, state_epoch=1) == ErrorCode.FENCED_STATE_EPOCH
            found = await it.read()
            assert (found.start_offset, found.state_epoch, list(found.state_batches)) == (50, 2, [])

    run(scenario)


def test_the_share_start_offset_never_decreases() -> None:
    async def scenario() -> None:
        async with coordinating(MemoryLog()) as it:
            await it.initialize()
            await it.write(start_offset=20, complete=7)
            assert await it.write((12, 25, 2, 1), start_offset=10, complete=9) == ErrorCode.NONE
            found = await it.summary()
            assert (found.start_offset, found.delivery_complete_count) == (20, 7)
            (batch,) = (await it.read()).state_batches
            assert (batch.first_offset, batch.last_offset) == (20, 25)

    run(scenario)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        ((3, 2, 2, 1), ErrorCode.INVALID_REQUEST),
        ((-1, 2, 2, 1), ErrorCode.INVALID_REQUEST),
        ((0, 2, 1, 1), ErrorCode.INVALID_REQUEST),
        ((0, 2, 9, 1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_state_batch_is_refused_and_changes_nothing(batch: tuple[int, int, int, int], code: int) -> None:
    async def scenario() -> None:
        async with coordinating(MemoryLog()) as it:
            await it.initialize()
            before = it.state()
            assert await it.write(batch) == code
            assert it.state() == before

    run(scenario)


def test_an_uninitialized_share_state_can_be_neither_read_nor_written() -> None:
    async def scenario() -> None:
        async with coordinating(MemoryLog()) as it:
            assert await it.write((0, 0, 2, 1)) == ErrorCode.INVALID_REQUEST
            assert (await it.read()).error_code == ErrorCode.INVALID_REQUEST
            assert (await it.summary()).start_offset == -1
            assert await it.delete() == ErrorCode.NONE
            await it.initialize()
            assert await it.delete() == ErrorCode.NONE
            assert it.state() is None
            assert await it.initialize(key=KEY._replace(partition=2)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await it.initialize(key=KEY._replace(group_id="")) == ErrorCode.INVALID_GROUP_ID

    run(scenario)


def test_records_truncated_from_the_share_log_are_covered_by_snapshots() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        async with coordinating(log) as it:
            await it.initialize()
            for number in range(40):
                await it.write((2 * number, 2 * number, 2, 1))
            before = it.state()
            await trio.sleep(COLD_MS / 1000 + 1)
            assert STATE not in log.starts, "the log is shortened at the next prune"
            await trio.sleep(2 * PRUNE_MS / 1000 - COLD_MS / 1000)
            assert log.starts[STATE] > 30, "the log was shortened"
            assert before is not None
        async with coordinating(log, epoch=2) as successor:
            after = successor.state()
            assert after is not None
            assert (after.batches, after.start_offset) == (before.batches, before.start_offset)

    run(scenario)


def test_the_share_states_of_a_deleted_topic_are_deleted() -> None:
    async def scenario() -> None:
        async with coordinating(MemoryLog()) as it:
            await it.initialize()
            it.coordinator.on_topics_deleted([TOPIC_ID])
            await trio.testing.wait_all_tasks_blocked()
            assert it.state() is None

    run(scenario)


@pytest.mark.parametrize("fails", ["snapshot", "pruning"])
def test_a_round_that_the_log_refuses_is_tried_again_in_the_next_one(fails: str) -> None:
    """A replica may have stopped being the leader just now (NotLeader), which is no ApiError."""

    async def scenario() -> None:
        log = MemoryLog()
        refused = NotLeader("not the leader any more")
        async with coordinating(log, pruning_fails=[refused] if fails == "pruning" else []) as it:
            await it.initialize()
            for number in range(40):
                await it.write((2 * number, 2 * number, 2, 1))
            await trio.sleep(COLD_MS / 1000 - 1)
            watermark = log.high_watermark
            if fails == "snapshot":
                log.high_watermark = refusing(refused)  # type: ignore[method-assign, assignment]
            await trio.sleep(2)
            log.high_watermark = watermark  # type: ignore[method-assign]
            await trio.sleep(3 * COLD_MS / 1000)
            assert log.starts[STATE] > 30

    run(scenario)


def refusing(problem: KraftError) -> Callable[[TopicPartition], int]:
    def raising(_: TopicPartition) -> int:
        raise problem

    return raising


def test_a_coordinator_deletes_the_states_of_topics_that_were_deleted_under_another_leader() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        async with coordinating(log) as it:
            await it.initialize()
        async with coordinating(log, epoch=2) as successor:
            assert successor.state() is not None
            with topic_gone():
                await trio.sleep(COLD_MS / 1000 + 1)
            assert successor.state() is None

    run(scenario)


@contextmanager
def topic_gone() -> Iterator[None]:
    kept = TOPICS.topic_name
    TOPICS.topic_name = lambda topic_id: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        TOPICS.topic_name = kept  # type: ignore[method-assign]


@pytest.mark.parametrize("group_id", ["g", "a:b", ":", "a::b"])
def test_a_coordinator_key_is_parsed_back_into_its_share_partition(group_id: str) -> None:
    key = SharePartitionKey(group_id, TOPIC_ID, 7)
    assert key_of_name(coordinator_key(key)) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "g",
        "g:0",
        f" :{uuid_to_text(TOPIC_ID)}:0",
        f"{uuid_to_text(TOPIC_ID)}:0",
        f":{uuid_to_text(TOPIC_ID)}:0",
        "g:nonsense:0",
    ]
    + [f"g:{uuid_to_text(TOPIC_ID)}:{partition}" for partition in ("", "x", "1_0", " 1", "2147483648")],
)
def test_a_text_that_names_no_share_partition_is_refused_as_a_coordinator_key(text: str) -> None:
    assert key_of_name(text) is None
