"""Replicas that move from one log directory to another: what is copied, when the copy takes over, and what the
controller is told."""

from __future__ import annotations

import errno

import pytest

from kraft.common.config.resource_type import ResourceType
from kraft.metadata.image.partition_registration import LOST_DIRECTORY
from kraft.metadata.records.config_record import ConfigRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.storage.log_files import PRODUCER_SNAPSHOT_SUFFIX, offset_file_name
from kraft.storage.recovery.damaged_log import DamageReport
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.replication.logs.log_dir_moves import FIRST, SECOND, mover
from tests.unit.server.brokers import NODE, Broker, batch, simulate
from tests.unit.storage.recovery.transactional_log import write


def test_the_controller_is_told_the_directory_of_a_new_replica() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t", 4)
            await universe.sleep(0.1)
            assert sorted(index for _, index in it.told) == [0, 1, 2, 3]
            assert {directory for directory, _ in it.told} == set(it.ids.values()), (
                "the one with fewer replicas comes next"
            )

    simulate(play)


def test_a_copy_replaces_its_log_with_the_whole_state_of_the_log() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            topic_id = it.made.topic("t")
            it.write(*(b"%d" % number * 1000 for number in range(50)))
            it.made.change(topic_id, leader=NODE)
            it.write(b"more")
            it.made.change(topic_id, leader=NODE)
            log = it.made.partition("t").log
            log.delete_records_before(3)
            before = it.content()
            bounds = (log.log_start_offset, log.high_watermark, log.log_end_offset, log.leader_epoch_cache.entries)
            await universe.sleep(0.1)
            assert it.at == f"{FIRST}/t-0"
            assert await it.move() == ErrorCode.NONE
            await universe.sleep(1.0)
            assert it.at == f"{SECOND}/t-0"
            log = it.made.partition("t").log
            assert it.content() == before
            assert (
                log.log_start_offset,
                log.high_watermark,
                log.log_end_offset,
                log.leader_epoch_cache.entries,
            ) == bounds
            assert it.told[-1] == (it.ids[SECOND], 0)
            assert await it.described() == [(SECOND, False, 0)]
            assert it.made.logs.get(log.topic_partition) is log
            assert [name for name in it.made.world.files.list_directory(FIRST) if name.endswith("-delete")]
            it.write(b"after")
            assert it.content() != before

    simulate(play)


def test_a_moved_log_keeps_its_producer_state() -> None:
    """It was written to the name that the copy had: the next segment, or the end of the node, took the disk offline."""

    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")

            def produce(sequence: int) -> None:
                now = it.made.world.clock.wall_ms()
                data = batch(b"v", timestamp_ms=now, producer_id=5, producer_epoch=0, base_sequence=sequence)
                it.made.partition("t").append(memoryview(data), 1, now, 0)

            produce(0)
            await universe.sleep(0.1)
            await it.move()
            await universe.sleep(1.0)
            assert it.at == f"{SECOND}/t-0"
            log = it.made.partition("t").log
            log.roll(it.made.world.clock.wall_ms())
            produce(1)
            log.close()
            snapshots = [offset_file_name(end, PRODUCER_SNAPSHOT_SUFFIX) for end in (1, 2)]
            assert set(snapshots) < set(it.made.world.files.list_directory(it.at))

    simulate(play)


def test_producer_state_that_is_in_no_record_survives_a_move() -> None:
    """A producer whose records were deleted was not known any more, and a first batch that waited for the coordinator
    was refused: INVALID_TXN_STATE."""

    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")
            now = it.made.world.clock.wall_ms()
            sent = batch(b"v", timestamp_ms=now, producer_id=5, producer_epoch=0, base_sequence=0)
            log = it.made.partition("t").log
            it.made.partition("t").append(memoryview(sent), 1, now, 0)
            log.roll(now)
            it.made.partition("t").delete_records_before(1)
            assert it.made.logs.delete_old_segments(log, now_ms=now).count == 1
            it.write(b"w")
            await universe.sleep(0.1)
            await it.move()
            transaction = it.made.partition("t").start_verification(6, 0, 0, now, implicit=False)
            await universe.sleep(1.0)
            assert it.at == f"{SECOND}/t-0"
            assert it.made.partition("t").append(memoryview(sent), 1, now, 0).duplicate
            waited = batch(
                b"x", timestamp_ms=now, producer_id=6, producer_epoch=0, base_sequence=0, is_transactional=True
            )
            it.made.partition("t").append(memoryview(waited), 1, now, 0, transaction)

    simulate(play)


def test_a_copy_keeps_no_more_aborted_transactions_than_its_log() -> None:
    """It kept each that it came by, since nobody told it how far the log is committed."""

    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")
            log = it.made.partition("t").log
            write(log)
            move = await it.follow(universe)
            assert log.producers.unreplicated == move.future.producers.unreplicated == {}
            assert move.future.last_stable_offset == log.last_stable_offset

    simulate(play)


def test_a_log_that_lost_records_is_not_replaced_until_it_has_fetched_them_again() -> None:
    """Its copy did not know of the loss: it might have led without the records."""

    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")
            it.write(b"v")
            log = it.made.partition("t").log
            log.damage = DamageReport(since_ms=1, start_offset=1, known_end_offset=3, kept_bytes=0, reason="a test")
            await universe.sleep(0.1)
            await it.move()
            await universe.sleep(1.0)
            assert it.at == f"{FIRST}/t-0"
            log.damage = None
            await universe.sleep(1.0)
            assert it.at == f"{SECOND}/t-0"

    simulate(play)


def test_a_copy_follows_its_log_until_the_controller_has_the_new_directory() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a", b"b")
            assert it.at == f"{FIRST}/t-0"
            it.write(b"c")
            assert (SECOND, True, 1) in await it.described()
            await universe.sleep(0.5)
            assert (SECOND, True, 0) in await it.described()
            it.silent = False
            await universe.sleep(0.5)
            assert it.at == f"{SECOND}/t-0"
            assert it.made.partition("t").log.log_end_offset == 3

    simulate(play)


def test_a_copy_restarts_when_its_log_is_truncated() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.publish(it.made.register(2))
            topic_id = it.made.topic("t", replicas=(NODE, 2))
            it.write(b"a", b"b", b"c")
            await universe.sleep(0.1)
            it.silent = True
            await it.move()
            await universe.sleep(0.5)
            it.made.change(topic_id, leader=2)
            log = it.made.partition("t").log
            it.made.logs.truncate_to(log, 1, now_ms=it.made.world.clock.wall_ms())
            it.made.change(topic_id, leader=NODE)
            it.write(b"other")
            expected = it.content()
            it.silent = False
            await universe.sleep(0.5)
            assert (it.at, it.content()) == (f"{SECOND}/t-0", expected)

    simulate(play)


def test_a_log_without_appends_can_be_moved() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")
            await it.move()
            await universe.sleep(0.5)
            it.write(b"a")
            assert it.at == f"{SECOND}/t-0"
            assert it.made.partition("t").log.log_end_offset == 1

    simulate(play)


def test_a_move_to_another_directory_to_the_same_one_or_to_an_unknown_one() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")
            it.write(b"a")
            assert await it.move("/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
            assert await it.move(topic="absent") == ErrorCode.REPLICA_NOT_AVAILABLE
            assert await it.move(FIRST) == ErrorCode.NONE
            await universe.sleep(0.2)
            assert it.at == f"{FIRST}/t-0"
            it.silent = True
            await it.move(SECOND)
            await it.move(FIRST)
            await universe.sleep(0.5)
            assert await it.described() == [(FIRST, False, 0)]
            it.made.replicas.directory_failed(SECOND, "test")
            assert await it.move(SECOND) == ErrorCode.KAFKA_STORAGE_ERROR

    simulate(play)


def test_a_replica_created_later_goes_to_the_directory_requested_before() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            assert await it.move(SECOND, "t") == ErrorCode.REPLICA_NOT_AVAILABLE
            it.made.topic("t")
            assert it.at == f"{SECOND}/t-0"

    simulate(play)


def test_when_the_target_disk_fails_the_log_stays_and_the_controller_is_notified() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a")
            it.silent = False
            it.made.replicas.directory_failed(SECOND, "test")
            await universe.sleep(0.3)
            assert it.at == f"{FIRST}/t-0"
            assert it.told[-1] == (it.ids[FIRST], 0)
            it.write(b"b")

    simulate(play)


def test_a_source_disk_failure_after_the_controller_assigned_the_target_loses_the_replica() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a")
            it.silent = False
            it.made.replicas.directory_failed(FIRST, "test")
            await universe.sleep(0.3)
            assert it.told[-1] == (LOST_DIRECTORY, 0)

    simulate(play)


def test_a_copy_found_damaged_at_startup_is_restarted() -> None:
    """Whole again, it took the log's place with its report of damage, and the replica was not to lead."""

    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a", b"b")
            (move,) = it.made.replicas.directories.mover.moves()
            move.future.damage = DamageReport(
                since_ms=1, start_offset=1, known_end_offset=3, kept_bytes=0, reason="a test"
            )
            log, futures = it.made.partition("t").log, it.made.logs.futures
            assert futures.resume(log, move.target, now_ms=it.made.world.clock.wall_ms()) is None
            assert not move.target.futures

    simulate(play)


def test_a_move_interrupted_by_a_crash_is_finished_or_restarted() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a", b"b")
            log, files = it.made.partition("t").log, it.made.world.files
            copy = it.made.replicas.directories.mover.moves()[0].future.directory
            for name in ("first", "second"):  # The crash comes before the original is renamed, then after it.
                fresh = Broker(it.made.world, it.made.server._nursery, (FIRST, SECOND))
                fresh.logs.futures.finish_moves(0)
                interrupted = dict(fresh.logs.futures.interrupted_moves)
                if name == "first":
                    assert {key: (move.directory.path, move.copy) for key, move in interrupted.items()} == {
                        log.topic_partition: (SECOND, copy)
                    }
                    files.rename(log.directory, f"{FIRST}/{copy.rpartition('/')[2].removesuffix('-future')}-delete")
                else:
                    assert not interrupted
                    assert files.exists(f"{SECOND}/t-0")

    simulate(play)


def test_copying_stays_within_the_rate_limit() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe, "replica.alter.log.dirs.io.max.bytes.per.second=1000") as it:
            it.made.topic("t")
            it.write(*(b"x" * 100 for _ in range(50)))
            await it.move()
            await universe.sleep(3.0)
            assert it.at == f"{FIRST}/t-0"
            await universe.sleep(30.0)
            assert it.at == f"{SECOND}/t-0"

    simulate(play)


def test_a_rate_limit_changed_at_run_time_applies_to_copies() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")
            it.write(*(b"x" * 100 for _ in range(50)))
            it.made.publish(
                ConfigRecord(
                    resource_type=ResourceType.BROKER,
                    resource_name="",
                    name="replica.alter.log.dirs.io.max.bytes.per.second",
                    value="1000",
                )
            )
            await it.move()
            await universe.sleep(3.0)
            assert it.at == f"{FIRST}/t-0"
            await universe.sleep(30.0)
            assert it.at == f"{SECOND}/t-0"

    simulate(play)


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_a_failing_target_disk_cancels_the_copy_and_goes_offline(operation: str) -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")
            it.write(b"a")
            await universe.sleep(0.1)
            universe.disk("broker").faults.append(Fault(operation, errno.EIO, SECOND))
            await it.move()
            await universe.sleep(0.5)
            assert await it.described() == [(FIRST, False, 0)]
            assert not it.made.logs.directories[1].is_online

    simulate(play)
