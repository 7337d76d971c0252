"""Followers that begin behind the remote tier wait for its store without holding up anybody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.replication.fetchers.following import Following
from kraft.replication.tiers import remote_starts
from kraft.replication.tiers.remote_log_manager import START_SECONDS_MAX, RemoteLogManager
from kraft.replication.tiers.remote_starts import STARTS_MAX, RemoteStarts
from kraft.world.simulated import Universe
from tests.unit.replication.followers import LEADER, Follower, record
from tests.unit.replication.tiers.tiered_broker import CONFIG, Metadata, Tiered, fill, started
from tests.unit.server.brokers import NODE, simulate

MOVED = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
LATE = 1000.0
"""Seconds: much later than any store is waited for."""


class TieredFollower(Follower):
    """Two partitions that this broker follows. It has led the first one, of which the store has eight records."""

    def __init__(self, tiered: Tiered) -> None:
        super().__init__(tiered.made, 2, **CONFIG)
        self.tiered = tiered
        self.leader.ends = {-2: 0, -4: 8}

    async def begin(self) -> None:
        for index in range(2):
            self.made.change(self.topic_id, index, isr=[NODE])
        await fill(self.tiered)
        for index in range(2):
            self.made.change(self.topic_id, index, leader=LEADER, isr=[LEADER])
            self.fetcher.follow(self.made.partition("t", index))

    def store_answers(self, *, in_time: bool) -> None:
        faults = self.tiered.store.faults
        faults.late_rate, faults.late_seconds = (0.0, 0.0) if in_time else (1.0, LATE)

    async def answer(self, *data: PartitionData) -> list[tuple[int, int]]:
        """One round with a leader that answers so: (partition, offset) asked for anew, and how the fetcher waited."""
        topic = FetchableTopicResponse(topic_id=self.topic_id, partitions=list(data))
        self.leader.answers.append(FetchResponse(session_id=9, responses=[topic]))
        before, began = len(self.leader.asked), self.made.world.clock.now()
        assert await self.fetcher._fetch(self.leader)  # type: ignore[arg-type]
        assert self.made.world.clock.now() - began < 0.1, "it waited for the store"
        request = self.leader.asked[before]
        return sorted((each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions)

    def end(self, index: int) -> int:
        return self.made.partition("t", index).log.log_end_offset

    @property
    def built(self) -> tuple[int, int]:
        tier = self.partition.tier
        assert tier is not None
        return tier.aux_state_builds, tier.failed_aux_state_builds


def play(body: Callable[[TieredFollower], Awaitable[None]]) -> None:
    async def run(universe: Universe) -> None:
        async with started(universe, Metadata()) as tiered:
            it = TieredFollower(tiered)
            await it.begin()
            await body(it)

    simulate(run)


def grown(offset: int) -> PartitionData:
    return PartitionData(partition_index=1, high_watermark=offset, records=record(offset, 1))


def test_a_hanging_store_delays_no_other_partition() -> None:
    async def body(it: TieredFollower) -> None:
        it.store_answers(in_time=False)
        assert await it.answer(MOVED, grown(0)) == [(0, 9), (1, 0)]
        for offset in range(1, 20):
            assert await it.answer(grown(offset)) == [(1, offset)], "the other one pauses"
            assert it.end(1) == offset + 1
        assert it.fetcher.put_aside() == 1
        assert it.built == (1, 0)

        await it.tiered.rounds(3)
        assert it.built == (1, 1)
        it.store_answers(in_time=True)
        assert await it.answer(MOVED) == [(0, 9), (1, 20)]
        await it.tiered.rounds()
        assert it.built == (2, 1)
        assert (it.partition.log.log_start_offset, it.partition.log.local_log_start_offset, it.end(0)) == (0, 8, 8)
        assert await it.answer(PartitionData(partition_index=0, records=record(8, 1))) == [(0, 8)]
        assert (it.end(0), it.fetcher.put_aside()) == (9, 0)

    play(body)


def test_requests_to_a_failing_store_back_off_exponentially() -> None:
    async def body(it: TieredFollower) -> None:
        it.tiered.store.faults.refuses = True
        waited: list[float] = []
        for _ in range(12):
            await it.answer(MOVED)
            before = it.built[1]
            while it.built[1] == before:
                await it.tiered.universe.sleep(0.01)
            began = it.made.world.clock.now()
            while it.fetcher.put_aside():
                await it.tiered.universe.sleep(0.01)
            waited.append(it.made.world.clock.now() - began)
        assert waited[:3] == pytest.approx([0.02, 0.04, 0.08], abs=0.02)
        assert waited[-1] == pytest.approx(10.0, abs=0.02)
        assert it.made.logs.online() == it.made.logs.directories, "it says nothing of the disk"

    play(body)


@pytest.mark.parametrize("becomes", ["led from elsewhere", "of a new epoch", "led here", "left"])
def test_a_remote_start_for_a_partition_with_a_new_leader_epoch_is_dropped(becomes: str) -> None:
    async def body(it: TieredFollower) -> None:
        it.tiered.store.faults.delay_mean = 1.0
        await it.answer(MOVED)
        if becomes == "left":
            it.fetcher.leave((it.topic_id, 0))
        else:
            leader = {"led from elsewhere": 3, "of a new epoch": LEADER, "led here": NODE}[becomes]
            it.made.change(it.topic_id, leader=leader)
        if becomes == "of a new epoch":
            it.fetcher.follow(it.partition)
        await it.tiered.rounds(10)
        assert (it.end(0), it.partition.log.local_log_start_offset) == (9, 8)
        if becomes == "of a new epoch":
            assert (0, 9) in await it.answer(MOVED), "asked for at once"
            await it.tiered.rounds(10)
            assert it.end(0) == 8

    play(body)


@pytest.mark.parametrize("is_left", [False, True])
def test_a_partition_with_a_new_leader_epoch_no_longer_waits_for_the_store(
    is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have its place among those that ask."""
    monkeypatch.setattr(remote_starts, "STARTS_MAX", 1)

    async def body(it: TieredFollower) -> None:
        it.store_answers(in_time=False)
        await it.answer(MOVED)
        await it.answer(PartitionData(partition_index=1, error_code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE))
        await it.tiered.universe.sleep(1)
        other = it.made.partition("t", 1).tier
        assert other is not None
        assert (it.built, other.aux_state_builds) == ((1, 0), 0)
        if is_left:
            it.fetcher.leave((it.topic_id, 0))
        else:
            it.made.change(it.topic_id, leader=LEADER)
            it.fetcher.follow(it.partition)
        await it.tiered.universe.sleep(1)
        assert (it.built, other.aux_state_builds) == ((1, 0), 1)

    play(body)


def test_an_unexpected_exception_in_a_remote_start_suspends_the_partition_and_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(it: TieredFollower) -> None:
        async def blunder(*_: Any) -> None:
            await trio.lowlevel.checkpoint()
            raise AssertionError("segments have epochs")

        with monkeypatch.context() as patched:
            patched.setattr(RemoteLogManager, "remote_start", blunder)
            await it.answer(MOVED)
            await it.tiered.rounds()
        [failed] = it.made.replicas.set_aside.items()
        assert (failed.work, failed.item) == ("replication", "t-0")
        assert it.built == (1, 1)
        await it.answer(MOVED)
        await it.tiered.rounds()
        assert it.end(0) == 8
        assert it.made.replicas.set_aside.items() == []

    play(body)


def test_the_wait_for_missing_remote_metadata_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(it: TieredFollower) -> None:
        async def never(*_: Any) -> None:
            await trio.sleep_forever()

        monkeypatch.setattr(Metadata, "make_sure", never)
        await it.answer(MOVED)
        await it.tiered.universe.sleep(START_SECONDS_MAX - 1)
        assert it.built == (1, 0)
        await it.tiered.universe.sleep(2)
        assert it.built == (1, 1)

    play(body)


def test_a_fetcher_resumes_when_one_of_its_waiting_partitions_gets_its_remote_start() -> None:
    async def body(it: TieredFollower) -> None:
        it.fetcher.leave((it.topic_id, 1))
        it.tiered.store.faults.delay_mean = 0.3
        await it.answer(MOVED)
        await it.fetcher._wait_for_something_to_ask()
        assert it.end(0) == 8
        assert await it.answer() == [(0, 8)]

    play(body)


def test_concurrent_remote_starts_are_limited_and_cancelled_ones_free_their_slot() -> None:
    async def run(universe: Universe) -> None:
        async with started(universe, Metadata()) as tiered:
            tiered.made.topic("t", STARTS_MAX + 3)
            starts, begun = RemoteStarts(), []
            waiting = [Following(tiered.made.partition("t", index)) for index in range(STARTS_MAX + 3)]

            async def ask(index: int) -> None:
                begun.append(index)
                await trio.sleep_forever()

            for index, following in enumerate(waiting):
                starts.begin(following, lambda index=index: ask(index))  # type: ignore[misc]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(starts.run)
                await universe.sleep(1)
                assert sorted(begun) == list(range(STARTS_MAX))
                starts.give_up(waiting[STARTS_MAX])
                starts.give_up(waiting[3])
                await universe.sleep(1)
                assert begun[STARTS_MAX:] == [STARTS_MAX + 1]
                nursery.cancel_scope.cancel()

    simulate(run)
