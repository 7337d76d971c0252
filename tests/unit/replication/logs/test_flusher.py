"""Grouped syncs: who is released by which, and what a failure means for whom."""

from __future__ import annotations

import errno

import pytest
import trio

from kraft.common.errors import ApiError, OutOfResources, StorageError
from kraft.protocol.error_codes import ErrorCode
from kraft.replication.logs.flusher import WAITERS_PER_ROUND
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import Broker, batch, broker, simulate


def append(made: Broker, name: str = "t", index: int = 0) -> None:
    made.partition(name, index).append(memoryview(batch(b"v")), 1, made.world.clock.wall_ms(), 0)


def test_one_sync_releases_all_earlier_waiters() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 3)
            flusher = made.replicas.flusher
            async with trio.open_nursery() as nursery:
                for index in range(3):
                    append(made, index=index)
                    nursery.start_soon(flusher.flush, made.partition("t", index).log)
            assert flusher.durations.count == 1
            assert all(made.partition("t", index).log.recovery_point == 1 for index in range(3))

    simulate(play)


def test_more_logs_than_one_step_may_open_are_synced_in_rounds() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            count = 2 * WAITERS_PER_ROUND + 1
            made.topic("t", count)
            flusher = made.replicas.flusher
            for index in range(count):
                append(made, index=index)
            assert await flusher.flush_all(made.partition("t", index).log for index in range(count)) == {}
            assert flusher.durations.count == 3
            assert all(made.partition("t", index).log.recovery_point == 1 for index in range(count))

    simulate(play)


def test_a_failed_sync_is_never_tried_again() -> None:
    """Whoever comes while it fails, or later, is told the same: a second sync would succeed and mean nothing."""

    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            made.topic("t", 2)
            append(made)
            append(made, index=1)
            log, other = made.partition("t").log, made.partition("t", 1).log
            universe.disk("broker").faults = [Fault("sync", errno.EIO, log.directory, times=1)]
            told: list[str] = []

            async def flush() -> None:
                with pytest.raises(StorageError):
                    await made.replicas.flusher.flush(log)
                told.append("failed")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(flush)
                await universe.sleep(0.00001)
                nursery.start_soon(flush)
                await universe.sleep(1)
                nursery.start_soon(flush)
            assert told == ["failed"] * 3
            assert log.recovery_point == 0
            await made.replicas.flusher.flush(other)
            assert other.recovery_point == 1

    simulate(play)


def test_a_log_deleted_during_its_sync_does_not_fail_its_directory() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t")
            made.topic("other")
            append(made)
            log = made.partition("t").log

            async def flush() -> None:
                with pytest.raises(ApiError) as caught:
                    await made.replicas.flusher.flush(log)
                assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER

            async with trio.open_nursery() as nursery:
                nursery.start_soon(flush)
                while not made.world.threads.running:
                    await trio.lowlevel.checkpoint()
                made.delete_topic(topic)
            assert made.logs.directories[0].is_online
            append(made, "other")
            await made.replicas.flusher.flush(made.partition("other").log)

    simulate(play)


def test_a_full_disk_at_the_epoch_checkpoint_fails_that_flush_but_not_the_directory() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made)
            log = made.partition("t").log
            universe.disk("broker").faults = [Fault("append", errno.ENOSPC, "leader-epoch-checkpoint", times=1)]
            with pytest.raises(OutOfResources):
                await made.replicas.flusher.flush(log)
            assert log.recovery_point == 0
            await made.replicas.flusher.flush(log)
            assert log.recovery_point == 1
            assert made.logs.directories[0].is_online

    simulate(play)


def test_a_shortage_of_descriptors_does_not_take_the_directory_offline() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made)
            made.logs.cache.clear()
            universe.disk("broker").faults = [Fault("open", errno.EMFILE, "/t-0/", times=1)]
            with pytest.raises(OutOfResources):
                await made.replicas.flusher.flush(made.partition("t").log)
            assert made.logs.directories[0].is_online

    simulate(play)


def test_directory_entries_of_a_flush_preempted_by_shutdown_are_synced_at_close() -> None:
    """They counted as durable: a power loss after a clean stop could take a whole log along."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made)
            log = made.partition("t").log
            await universe.sleep(1)
            made.replicas.flusher.flush_later(log)
        assert log.recovery_point == 0
        job = log.prepare_close()
        assert job is not None
        assert job.directories == ["/data/t-0", "/data"]
        assert job.opened[0].file.path == "/data/t-0/partition.metadata"

    simulate(play)
