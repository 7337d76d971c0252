"""With flush.messages=1 a fetch acknowledges only what is synced, however it got into the log: who acknowledged may
lead after a power loss."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.replication.fetchers.replica_fetcher import ReplicaFetcher
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.replication.followers import Follower, ScriptedLeader, record
from tests.unit.server.brokers import broker, simulate

NOTHING: dict[str, Any] = {"high_watermark": 0, "log_start_offset": 0, "records": None}
FOREVER = 1e9


class Syncing(Follower):
    """A follower under flush.messages, with two log directories. `asked`: the offset and the recovery point, at each
    fetch of its partition."""

    def flush_every(self, messages: int) -> None:
        self.asked: list[tuple[int, int]] = []
        log = self.partition.log
        log.config = dataclasses.replace(log.config, flush_messages=messages)
        self.hear(self.leader)

    def hear(self, leader: ScriptedLeader) -> None:
        def heard() -> None:
            for topic in leader.asked[-1].topics:
                self.asked += [(asked.fetch_offset, self.partition.log.recovery_point) for asked in topic.partitions]

        leader.when_asked = heard


@asynccontextmanager
async def syncing(universe: Universe, messages: int = 1) -> AsyncIterator[Syncing]:
    async with broker(universe, directories=("/one", "/two")) as made:
        it = Syncing(made)
        it.flush_every(messages)
        yield it


async def during_a_slow_sync(universe: Universe, it: Syncing, act: Callable[[], None]) -> None:
    """A record comes, and `act` happens while it is synced."""
    it.follow()
    disk, log = universe.disk("broker"), it.partition.log
    async with trio.open_nursery() as nursery:
        disk.slowness = 1000.0

        async def fetch() -> None:
            await it.fetch(high_watermark=0, log_start_offset=0, records=record(0, 1))
            it.leader.answers.append(FetchResponse(session_id=9))
            await it.fetcher._fetch(it.leader)  # type: ignore[arg-type]

        nursery.start_soon(fetch)
        await universe.sleep(0.01)
        assert (log.log_end_offset, log.recovery_point, len(it.leader.asked)) == (1, 0, 1), "the sync is under way"
        act()
        disk.slowness = 1.0


def test_records_unsynced_at_a_kill_are_synced_before_the_first_fetch() -> None:
    async def play(universe: Universe) -> None:
        async with syncing(universe) as it:
            it.write(1, 1)
            it.follow()
            await it.fetch(**NOTHING)
            assert it.asked == [(2, 2)]

    simulate(play)


def test_all_partitions_of_one_response_share_one_sync_round() -> None:
    async def play(universe: Universe) -> None:
        async with syncing(universe) as it:
            topic_id = it.made.topic("many", 8, replicas=(1, 2, 3), flush_messages="1")
            answers = []
            for index in range(8):
                it.made.change(topic_id, index, leader=2)
                it.fetcher.follow(it.made.partition("many", index))
                answers.append(
                    PartitionData(partition_index=index, high_watermark=0, log_start_offset=0, records=record(0, 1))
                )
            it.leader.answers.append(
                FetchResponse(session_id=9, responses=[FetchableTopicResponse(topic_id=topic_id, partitions=answers)])
            )
            assert await it.fetcher._fetch(it.leader)  # type: ignore[arg-type]
            before = it.made.replicas.flusher.durations.count
            await it.fetch(**NOTHING)
            assert it.made.replicas.flusher.durations.count - before <= 2, "one a directory"
            assert [it.made.partition("many", index).log.recovery_point for index in range(8)] == [1] * 8

    simulate(play)


def test_a_new_leader_is_fetched_from_only_after_the_former_leaders_records_are_synced() -> None:
    async def play(universe: Universe) -> None:
        async with syncing(universe) as it:
            other = ScriptedLeader()
            it.hear(other)
            fetcher = ReplicaFetcher(
                3, it.made.replicas, it.fetcher._settings, it.made.server.services.loggers.get("fetcher")
            )
            topic = FetchableTopicResponse(
                topic_id=it.topic_id, partitions=[PartitionData(partition_index=0, **NOTHING)]
            )
            other.answers.append(FetchResponse(session_id=7, responses=[topic]))
            async with trio.open_nursery() as nursery:

                def change_leader() -> None:
                    it.made.change(it.topic_id, leader=3)
                    it.fetcher.leave((it.topic_id, 0))
                    fetcher.follow(it.partition)
                    nursery.start_soon(fetcher._fetch, other)

                await during_a_slow_sync(universe, it, change_leader)
            assert it.asked == [(0, 0), (1, 1)]
            assert len(other.asked) == 1

    simulate(play)


def test_records_appended_as_leader_are_synced_before_the_replica_follows() -> None:
    async def play(universe: Universe) -> None:
        async with syncing(universe) as it:
            now = it.made.world.clock.wall_ms()
            it.partition.append(memoryview(bytearray(record(0, 0))), 1, now, 0)
            assert it.partition.log.recovery_point == 0
            it.follow()
            await it.fetch(**NOTHING)
            assert it.asked == [(1, 1)]

    simulate(play)


def test_a_sync_that_lacks_resources_is_retried_until_it_succeeds() -> None:
    async def play(universe: Universe) -> None:
        async with syncing(universe) as it:
            it.follow()
            await it.fetch(high_watermark=0, log_start_offset=0, records=record(0, 1))
            fault = Fault("open", errno.EMFILE, it.partition.log.directory, times=FOREVER)
            universe.disk("broker").faults = [fault]
            for rounds in range(1, 4):
                it.leader.answers.append(FetchResponse(session_id=9))
                assert await it.fetcher._fetch(it.leader)  # type: ignore[arg-type]
                assert (it.fetcher.put_aside(), it.asked) == (1, [(0, 0)]), f"put off, round {rounds}"
                await universe.sleep(1.1)
            fault.times = 0
            await it.fetch(**NOTHING)
            assert it.asked == [(0, 0), (1, 1)]
            assert all(directory.is_online for directory in it.made.logs.directories)

    simulate(play)


def test_a_copy_swapped_in_during_a_sync_is_synced_too() -> None:
    async def play(universe: Universe) -> None:
        async with syncing(universe) as it:

            def move() -> None:
                logs, log = it.made.logs, it.partition.log
                source, target = logs.directories
                future = logs.futures.create(log, target, now_ms=0)
                future.append_as_follower(record(0, 1), now_ms=0)
                logs.futures.promote(log, future, source, target, now_ms=0)
                it.partition.log = future

            await during_a_slow_sync(universe, it, move)
            assert it.partition.log.recovery_point == 0
            await universe.sleep(0.1)
            await it.fetch(**NOTHING)
            assert it.asked == [(0, 0), (1, 1)]

    simulate(play)


@pytest.mark.parametrize("messages", [3, 1 << 62])
def test_a_log_is_synced_only_as_flush_messages_requires(messages: int) -> None:
    async def play(universe: Universe) -> None:
        async with syncing(universe, messages) as it:
            it.write(1, 1)
            it.follow()
            before = it.made.replicas.flusher.durations.count
            await it.fetch(**NOTHING)
            assert (it.asked, it.made.replicas.flusher.durations.count) == ([(2, 0)], before)

    simulate(play)
