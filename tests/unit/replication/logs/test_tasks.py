"""Recurring work on logs, and what it does when the disk is full, or a log goes away meanwhile."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio

from kraft.common.config.resource_type import ResourceType
from kraft.metadata.records.config_record import ConfigRecord
from kraft.storage.log_files import HIGH_WATERMARK_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kraft.storage.log_segment import UNKNOWN
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import Broker, batch, broker, simulate
from tests.unit.storage.support import batch_of

HOUR_MS = 3_600_000


def append(made: Broker, name: str = "t", *, key: bytes | None = None, age_ms: int = 0) -> None:
    now = made.world.clock.wall_ms()
    data = batch(b"v" * 100, key=key, timestamp_ms=now - age_ms)
    made.partition(name).append(memoryview(data), 1, now, 0)


def test_retention_deletes_segments_and_their_files_later() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", retention_ms="1000", file_delete_delay_ms="5000")
            append(made, age_ms=HOUR_MS)
            made.partition("t").log.roll(made.world.clock.wall_ms())
            append(made)
            await made.server.log_tasks.apply_retention()
            assert made.partition("t").log.log_start_offset == 1
            files = made.world.files
            await made.server.log_tasks.delete_due()
            assert any(name.endswith(".deleted") for name in files.list_directory("/data/t-0"))
            await universe.sleep(6)
            await made.server.log_tasks.delete_due()
            assert not any(name.endswith(".deleted") for name in files.list_directory("/data/t-0"))

    simulate(play)


def three_segments(made: Broker, *, age_ms: int = 0) -> Any:
    """A log of three segments of one record each, of which the last is active."""
    log = made.partition("t").log
    for number in range(3):
        if number:
            log.roll(made.world.clock.wall_ms())
        append(made, age_ms=age_ms)
    return log


def test_expired_records_stay_until_the_next_retention_check_when_other_segments_are_deleted() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made, trio.open_nursery() as nursery:
            made.topic("t")
            log = three_segments(made, age_ms=30 * 24 * HOUR_MS)
            nursery.start_soon(made.server.log_tasks.run)
            made.partition("t").delete_records_before(1)
            await universe.sleep(3)
            assert [segment.base_offset for segment in log.segments] == [1, 2]
            nursery.cancel_scope.cancel()

    simulate(play)


@pytest.mark.parametrize("cause", ["retention.ms", "retention.bytes", "delete-records", "leader's start"])
def test_segments_below_the_log_start_are_deleted_before_the_next_retention_check(cause: str) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made, trio.open_nursery() as nursery:
            topic_id = made.topic("t")
            log = three_segments(made, age_ms=HOUR_MS)
            nursery.start_soon(made.server.log_tasks.run)
            await universe.sleep(5)
            assert len(log.segments) == 3
            if cause == "delete-records":
                made.partition("t").delete_records_before(2)
            elif cause == "leader's start":
                made.change(topic_id, leader=2)
                made.partition("t").followed(3, 2)
            else:
                value = "1000" if cause == "retention.ms" else "1"
                made.publish(ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name=cause, value=value))
            await universe.sleep(1.5)
            assert log.segments[0].base_offset >= 2
            nursery.cancel_scope.cancel()

    simulate(play)


@pytest.mark.parametrize("within", ["00.log", "01.log", "01.index", "00.timeindex"])
def test_retention_that_fails_on_a_full_disk_succeeds_at_the_next_check(within: str) -> None:
    """Its segments were out of the log, which still began before them: from there nobody could read any more."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", retention_ms="1000")
            log = made.partition("t").log
            for _ in range(3):
                append(made)
                await universe.sleep(10)
                log.roll(made.world.clock.wall_ms())
            append(made)
            universe.disk("broker").faults = [Fault("rename", errno.ENOSPC, within)]
            await made.server.log_tasks.apply_retention()
            assert universe.disk("broker").faults[0].bites == 1
            assert log.log_start_offset == log.segments[0].base_offset < 3
            assert log.read(log.log_start_offset, 1000).size
            await made.server.log_tasks.apply_retention()
            assert log.log_start_offset == log.segments[0].base_offset == 3
            await made.replicas.flusher.flush(log)
        async with broker(universe, knows_itself=False) as made:
            (again,) = made.logs.logs()
            assert (again.log_start_offset, again.log_end_offset) == (3, 4)

    simulate(play)


def test_a_checkpoint_that_fails_on_a_full_disk_is_written_at_the_next_interval() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made)
            await made.replicas.flusher.flush(made.partition("t").log)
            tasks = made.server.log_tasks
            for name, task in (
                (RECOVERY_POINT_CHECKPOINT, tasks.checkpoint_recovery_points),
                (HIGH_WATERMARK_CHECKPOINT, tasks.checkpoint_high_watermarks),
            ):
                universe.disk("broker").faults = [Fault("append", errno.ENOSPC, name)]
                await task()
                assert made.logs.directories[0].is_online
                assert not made.world.files.exists(f"/data/{name}")
                await task()
                assert made.world.files.exists(f"/data/{name}")

    simulate(play)


def test_a_checkpoint_that_fails_takes_the_directory_offline() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made)
            universe.disk("broker").faults = [Fault("sync", errno.EIO, HIGH_WATERMARK_CHECKPOINT)]
            await made.server.log_tasks.checkpoint_high_watermarks()
            assert not made.logs.directories[0].is_online

    simulate(play)


def test_checkpoints_interrupted_by_shutdown_are_written_by_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> None:
        await trio.sleep_forever()

    async def play(universe: Universe) -> None:
        async with broker(universe, directories=("/one", "/two")) as made:
            made.topic("t", 2)
            for index in (0, 1):
                log = made.partition("t", index).log
                made.partition("t", index).append(
                    memoryview(batch(b"v", timestamp_ms=made.world.clock.wall_ms())), 1, made.world.clock.wall_ms(), 0
                )
                log.delete_records_before(1)
            with trio.CancelScope() as scope, monkeypatch.context() as patch:
                patch.setattr(type(made.world.threads), "run", never)
                scope.cancel()
                await made.server.log_tasks.checkpoint_recovery_points()
            assert scope.cancelled_caught
            made.logs.checkpoint_all()
            for path in ("/one", "/two"):
                assert made.world.files.exists(f"{path}/{LOG_START_OFFSET_CHECKPOINT}")

    simulate(play)


def test_retention_continues_when_a_topic_is_deleted_during_the_check() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topics = [made.topic(f"t{number}", retention_ms="1000") for number in range(45)]
            for number in range(45):
                append(made, f"t{number}", age_ms=HOUR_MS)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.server.log_tasks.apply_retention)
                await trio.lowlevel.checkpoint()
                for topic in topics[20:]:
                    made.delete_topic(topic)
                await trio.lowlevel.checkpoint()
            assert made.logs.directories[0].is_online

    simulate(play)


def test_logs_are_flushed_at_the_flush_interval() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", flush_ms="3000")
            append(made)
            await made.server.log_tasks.flush_due()
            await universe.sleep(1)
            assert made.partition("t").log.recovery_point == 0
            await universe.sleep(3)
            await made.server.log_tasks.flush_due()
            await universe.sleep(1)
            assert made.partition("t").log.recovery_point == 1

    simulate(play)


async def compacted(made: Broker) -> None:
    """A log with something to clean: closed segments that are durable."""
    made.topic("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    for _ in range(2):
        for _ in range(5):
            append(made, key=b"k")
        made.partition("t").log.roll(made.world.clock.wall_ms())
    append(made, key=b"k")
    await made.replicas.flusher.flush(made.partition("t").log)


def test_records_that_the_cleaner_cannot_read_are_reported_until_they_are_deleted() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            await compacted(made)
            cleaner, log = made.server.log_tasks.cleaner, made.partition("t").log
            assert cleaner.unreadable() == []
            first = log.segments[0]
            opened = first.open_log().file
            opened.pwrite(bytes((opened.pread(1, 70)[0] ^ 4,)), 70)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cleaner.run)
                await universe.sleep(60)
                nursery.cancel_scope.cancel()
            ((place, records),) = cleaner.unreadable()
            assert (str(place), records.ranges) == ("t-0", ((0, 5),))
            assert "CRC" in records.note
            log.delete_records_before(5)
            assert cleaner.unreadable() == []

    simulate(play)


def test_the_cleaner_waits_for_free_disk_space_and_then_cleans() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            await compacted(made)
            universe.disk("broker").faults = [Fault("append", errno.ENOSPC, ".cleaned")]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.server.log_tasks.run)
                await universe.sleep(5)
                size = made.partition("t").log.size
                assert made.logs.directories[0].is_online
                await universe.sleep(60)
                assert made.partition("t").log.size < size
                nursery.cancel_scope.cancel()

    simulate(play)


@pytest.mark.parametrize(("error", "stays"), [(errno.EMFILE, True), (errno.EIO, False)])
def test_a_log_that_the_cleaner_cannot_read_fails_its_directory_but_not_the_broker(error: int, stays: bool) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            await compacted(made)
            log, size = made.partition("t").log, made.partition("t").log.size
            directory = made.logs.directory_of(log)
            log.local.forget_files()
            for segment in log.segments:
                segment._rolling_timestamp = UNKNOWN  # As after a start.
            universe.disk("broker").faults = [Fault("open", error, f"{log.directory}/")]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.server.log_tasks.cleaner.run)
                await universe.sleep(60)
                assert [each.path for each in made.logs.online()] == [
                    path for path in ("/a", "/b") if stays or path != directory.path
                ]
                assert (log.size < size) == stays
                nursery.cancel_scope.cancel()

    simulate(play)


def test_a_cleaning_that_fails_after_its_swap_started_is_not_retried() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            await compacted(made)
            directory = made.logs.directory_of(made.partition("t").log)
            universe.disk("broker").faults = [Fault("rename", errno.ENOSPC, ".log.swap")]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.server.log_tasks.cleaner.run)
                await universe.sleep(60)
                nursery.cancel_scope.cancel()
            assert not directory.is_online

    simulate(play)


def test_a_file_that_cannot_be_removed_does_not_keep_other_files_from_being_removed() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topics = [made.topic(f"t{number}", file_delete_delay_ms="0") for number in range(3)]
            for number, topic in enumerate(topics):
                append(made, f"t{number}")
                made.delete_topic(topic)
            universe.disk("broker").faults = [Fault("remove_tree", errno.EIO, "/t0-")]
            await universe.sleep(1)
            await made.server.log_tasks.delete_due()
            assert [name[:2] for name in made.world.files.list_directory("/data") if name.endswith("-delete")] == ["t0"]

    simulate(play)


def test_a_cleaned_copy_whose_sync_fails_replaces_no_segment() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            await compacted(made)
            log = made.partition("t").log
            segments, directory = list(log.segments), made.logs.directory_of(made.partition("t").log)
            universe.disk("broker").faults = [Fault("sync", errno.EIO, ".cleaned")]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.server.log_tasks.cleaner.run)
                while directory.is_online:
                    await universe.sleep(0.001)
                nursery.cancel_scope.cancel()
            assert log.segments == segments

    simulate(play)


async def until_cleaned(universe: Universe, made: Broker, size: int) -> None:
    while made.partition("t").log.size >= size:
        await universe.sleep(0.1)


def test_a_cleaning_whose_worker_process_is_killed_is_restarted() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=["log.cleaner.backoff.ms=1000"]) as made:
            await compacted(made)
            log, workers = made.partition("t").log, made.world.workers
            size, workers.death_rate = log.size, 1.0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.server.log_tasks.cleaner.run)
                await universe.sleep(130)
                assert workers.deaths == 3, "it is tried again once a minute"
                assert log.size == size
                assert made.logs.directories[0].is_online
                assert not [name for name in made.world.files.list_directory(log.directory) if "cleaned" in name]
                assert any(event["event"] == "log cannot be cleaned" for event in made.events)
                workers.death_rate = 0.0
                await until_cleaned(universe, made, size)
                nursery.cancel_scope.cancel()

    simulate(play)


def test_the_cleaner_stays_within_its_io_rate_limit() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=["log.cleaner.io.max.bytes.per.second=100"]) as made:
            await compacted(made)
            size, start = made.partition("t").log.size, made.world.clock.now()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.server.log_tasks.cleaner.run)
                await until_cleaned(universe, made, size)
                nursery.cancel_scope.cancel()
            # Once for the map and once for the copy; the active segment is not cleaned.
            assert made.world.clock.now() - start > 2 * size * 0.8 / 100

    simulate(play)


def test_log_cleaner_threads_limits_concurrent_cleanings_and_changes_at_run_time() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=["log.cleaner.threads=2", "log.cleaner.backoff.ms=1000"]) as made:
            cleaner = made.server.log_tasks.cleaner
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cleaner.run)
                await universe.sleep(3)
                assert cleaner.threads == 2
                made.publish(
                    ConfigRecord(
                        resource_type=ResourceType.BROKER, resource_name="", name="log.cleaner.threads", value="1"
                    )
                )
                await universe.sleep(3)
                assert cleaner.threads == 1
                nursery.cancel_scope.cancel()

    simulate(play)


def test_a_log_whose_cleaning_raises_unexpectedly_is_suspended_and_other_logs_are_cleaned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("a")
            made.topic("b")
            seen = []

            def expire(log: Any, now_ms: int) -> None:
                seen.append(log.topic_partition.topic)
                assert log.topic_partition.topic != "a", "broken"

            monkeypatch.setattr(type(made.partition("a").log), "maybe_expire_producers", expire)
            tasks = made.server.log_tasks
            await tasks.expire_producers()
            assert sorted(seen) == ["a", "b"]
            assert [(each.work, each.item) for each in tasks.set_aside.items()] == [("expiry of producers", "a-0")]
            monkeypatch.undo()
            await tasks.expire_producers()
            assert tasks.set_aside.items() == []

    simulate(play)


def produce_once(made: Broker) -> None:
    """One batch of an idempotent producer."""
    now = made.world.clock.wall_ms()
    data = batch_of(b"v", timestamp=now, producer_id=7, producer_epoch=0, base_sequence=0)
    made.partition("t").append(memoryview(data), 1, now, 0)


def test_a_log_created_after_startup_expires_producers_by_the_configured_time() -> None:
    async def play(universe: Universe) -> None:
        async with broker(
            universe,
            sets=("producer.id.expiration.ms=1000", "producer.id.expiration.check.interval.ms=5000"),
        ) as made:
            made.topic("t")
            produce_once(made)
            log = made.partition("t").log
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.server.log_tasks.run)
                await universe.sleep(4)
                assert log.has_producers
                await universe.sleep(2)
                assert not log.has_producers
                nursery.cancel_scope.cancel()

    simulate(play)


def test_producer_id_expiration_ms_changes_at_run_time() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            produce_once(made)
            log = made.partition("t").log
            await universe.sleep(2)
            await made.server.log_tasks.expire_producers()
            assert log.has_producers
            made.publish(
                ConfigRecord(
                    resource_type=ResourceType.BROKER, resource_name="", name="producer.id.expiration.ms", value="1000"
                )
            )
            await made.server.log_tasks.expire_producers()
            assert not log.has_producers

    simulate(play)
