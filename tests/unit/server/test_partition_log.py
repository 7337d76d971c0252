"""The coordinators' log over this broker's replicas."""

from __future__ import annotations

import errno

import pytest
import trio

from kraft.common.errors import ApiError, NotLeader, StorageError
from kraft.common.ids import TopicPartition
from kraft.coordinator.errors import ReloadNeeded
from kraft.coordinator.pending_batch import require_room
from kraft.coordinator.shard import Marker, Producer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.record_batch import HEADER_SIZE, RecordBatch
from kraft.server.partition_log import PartitionLog
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from kraft.world.turns import TURN_ITEMS
from tests.step_work import WorkOfSteps
from tests.unit.server.brokers import NODE, broker, simulate

OFFSETS = TopicPartition("__consumer_offsets", 0)


def test_appended_records_are_read_back_and_committed() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact")
            log, told = PartitionLog(made.replicas), list[int]()
            end = log.on_high_watermark(OFFSETS, told.append)
            now = made.world.clock.wall_ms()
            assert await log.append(OFFSETS, 0, [(b"k1", b"v1"), (b"k2", None)], now) == 1
            assert told == [2]
            found = await log.read(OFFSETS, 0)
            assert all(isinstance(batch, RecordBatch) for batch in found)
            assert [
                (record.offset, bytes(record.key or b""), record.value and bytes(record.value))
                for batch in found
                for record in batch.records()
            ] == [
                (0, b"k1", b"v1"),
                (1, b"k2", None),
            ]
            assert await log.read(OFFSETS, 2) == ()
            end()
            await log.append(OFFSETS, 0, [(b"k1", b"v2")], now)
            assert (told, log.high_watermark(OFFSETS), log.log_start_offset(OFFSETS)) == ([2], 3, 0)

    simulate(play)


def test_a_log_that_starts_within_a_batch_is_read_from_that_whole_batch() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact")
            log, now = PartitionLog(made.replicas), made.world.clock.wall_ms()
            for _ in range(3):
                await log.append(OFFSETS, 0, [(b"k1", b"v"), (b"k2", b"v"), (b"k3", b"v")], now)
            made.partition(OFFSETS.topic).log.follow_log_start(4)
            start = log.log_start_offset(OFFSETS)
            found = [(batch.base_offset, batch.next_offset) for batch in await log.read(OFFSETS, start)]
            assert (start, found) == (4, [(3, 6), (6, 9)])

    simulate(play)


def test_listing_thousands_of_small_batches_yields_to_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    work = WorkOfSteps(monkeypatch, (RecordBatch, "check_frame"))

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact")
            log, now = PartitionLog(made.replicas), made.world.clock.wall_ms()
            for _ in range(2 * TURN_ITEMS + 1):
                await log.append(OFFSETS, 0, [(b"k", b"v")], now)
            work.begin()
            assert len(await log.read(OFFSETS, 0)) == 2 * TURN_ITEMS + 1

    simulate(play)
    assert work.most["check_frame"] == TURN_ITEMS


def test_a_marker_sent_again_is_not_appended_again() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact")
            log, now = PartitionLog(made.replicas), made.world.clock.wall_ms()
            guard = log.start_verification(OFFSETS, 7, 0, implicit=False)
            await log.append(OFFSETS, 0, [(b"k", b"v")], now, Producer(7, 0, guard))
            marker = Marker(7, 0, 5, True, 0)
            assert [await log.append(OFFSETS, 0, marker, now) for _ in range(3)] == [1, 1, 1]
            assert log.high_watermark(OFFSETS) == 2

    simulate(play)


def test_only_the_leader_of_the_given_epoch_appends() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic(OFFSETS.topic, replicas=(NODE, 2), cleanup_policy="compact")
            log = PartitionLog(made.replicas)
            for epoch in (-1, 1):
                with pytest.raises(NotLeader):
                    await log.append(OFFSETS, epoch, [(b"k", b"v")], made.world.clock.wall_ms())
            made.change(topic, leader=2)
            with pytest.raises(NotLeader):
                await log.append(OFFSETS, 1, [(b"k", b"v")], made.world.clock.wall_ms())
            with pytest.raises(NotLeader):
                log.high_watermark(OFFSETS)

    simulate(play)


def test_a_log_directory_goes_offline_when_an_append_fails() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact")
            log = PartitionLog(made.replicas)
            await log.append(OFFSETS, 0, [(b"k", b"v")], 1)
            universe.disk("broker").faults = [Fault("append", errno.EIO, ".log"), Fault("truncate", errno.EIO, ".log")]
            with pytest.raises(StorageError):
                await log.append(OFFSETS, 0, [(b"k", b"w")], 1)
            assert not made.logs.directories[0].is_online

    simulate(play)


def test_records_that_could_not_be_synced_are_reloaded() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact", flush_messages="1")
            log = PartitionLog(made.replicas)
            universe.disk("broker").faults = [Fault("sync", errno.EIO, ".log")]
            with pytest.raises(ReloadNeeded):
                await log.append(OFFSETS, 0, [(b"k", b"v")], 1)

    simulate(play)


def test_with_flush_messages_an_append_returns_once_it_is_durable() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact", flush_messages="1")
            log = PartitionLog(made.replicas)
            await log.append(OFFSETS, 0, [(b"k", b"v")], made.world.clock.wall_ms())
            assert made.partition(OFFSETS.topic).log.recovery_point == 1
            assert log.high_watermark(OFFSETS) == 1

    simulate(play)


def test_a_segment_closed_by_an_append_is_flushed_so_that_it_can_be_compacted() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=("kraft.append.thread.min.bytes=1048576",)) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact", segment_bytes="1048576")
            log, kept = PartitionLog(made.replicas), made.partition(OFFSETS.topic).log
            for _ in range(2):
                await log.append(OFFSETS, 0, [(b"k", bytes(600_000))], made.world.clock.wall_ms())
            await universe.sleep(1.0)
            assert [segment.base_offset for segment in kept.segments] == [0, 1]
            assert kept.recovery_point >= 1
            await log.append(OFFSETS, 0, [(b"k", b"v")], made.world.clock.wall_ms())
            await universe.sleep(1.0)
            assert kept.recovery_point < 3, "not each append is synced"

    simulate(play)


def test_a_lost_directory_is_a_storage_error() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact")
            made.replicas.directory_failed(made.partition(OFFSETS.topic).log.directory.rpartition("/")[0], "test")
            with pytest.raises(StorageError):
                await PartitionLog(made.replicas).append(OFFSETS, 0, [(b"k", b"v")], made.world.clock.wall_ms())

    simulate(play)


def test_the_largest_batch_size_is_the_topics_setting() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact", max_message_bytes="1000", segment_bytes="2000000")
            log, now = PartitionLog(made.replicas), made.world.clock.wall_ms()
            assert log.batch_bounds(OFFSETS) == (1000, 2_000_000)
            room = 1000 - HEADER_SIZE
            await log.append(OFFSETS, 0, [(b"k", bytes(room - 33))], now)
            with pytest.raises(ApiError) as refused:
                require_room([(b"k", bytes(room - 32))], log, OFFSETS)
            assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
            # Records that belong together are one batch all the same, as large as a segment may be.
            records = [(b"k%d" % index, bytes(500)) for index in range(3_500)]
            await log.append(OFFSETS, 0, records, now)
            last = (await log.read(OFFSETS, 1))[-1]
            assert [(record.key, record.value) for record in last.records()] == records
            with pytest.raises(ApiError):
                await log.append(OFFSETS, 0, [*records, *records[:500]], now)
            assert log.high_watermark(OFFSETS) == 3_501

    simulate(play)


def test_an_append_that_need_not_wait_is_synchronous() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact")
            log, now = PartitionLog(made.replicas), made.world.clock.wall_ms()
            assert log.append_at_once(OFFSETS, 0, [(b"k1", b"v1"), (b"k2", None)], now) == (1, 2)
            guard = log.start_verification(OFFSETS, 7, 0, implicit=False)
            assert log.append_at_once(OFFSETS, 0, [(b"k", b"v")], now, Producer(7, 0, guard)) == (2, 3)
            assert [log.append_at_once(OFFSETS, 0, Marker(7, 0, 5, True, 0), now) for _ in range(2)] == [(3, 4)] * 2
            assert log.high_watermark(OFFSETS) == 4
            found = [(batch.is_transactional, batch.is_control) for batch in await log.read(OFFSETS, 0)]
            assert found == [(False, False), (True, False), (True, True)]
            with pytest.raises(NotLeader):
                log.append_at_once(OFFSETS, 1, [(b"k", b"v")], now)

    simulate(play)


def test_an_append_that_has_to_wait_is_not_synchronous() -> None:
    """A thread for what is large, those who append before, a sync; and many records are made in turns."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            for name, settings in (("plain", {}), ("synced", {"flush_messages": "2"})):
                made.topic(name, cleanup_policy="compact", **settings)
            log, now = PartitionLog(made.replicas), made.world.clock.wall_ms()
            plain, synced = TopicPartition("plain", 0), TopicPartition("synced", 0)
            few, marker = [(b"k", b"v")], Marker(7, 0, 5, True, 0)
            assert log.append_at_once(plain, 0, [(b"k", bytes(300_000))], now) is None
            assert log.append_at_once(plain, 0, few * 1001, now) is None
            assert log.append_at_once(synced, 0, few, now) is None
            assert log.append_at_once(synced, 0, marker, now) is None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(log.append, plain, 0, [(b"k", bytes(300_000))], now)
                while not made.partition("plain").log.is_appending:
                    await trio.lowlevel.checkpoint()
                assert log.append_at_once(plain, 0, few, now) is None
                assert log.append_at_once(plain, 0, marker, now) is None
            assert made.partition("plain").log.log_end_offset == 1
            assert made.partition("synced").log.log_end_offset == 0

    simulate(play)


def test_a_segment_closed_by_a_synchronous_append_is_flushed() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=("kraft.append.thread.min.bytes=1048576",)) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact", segment_bytes="1048576")
            log, kept = PartitionLog(made.replicas), made.partition(OFFSETS.topic).log
            for offset in range(2):
                now = made.world.clock.wall_ms()
                assert log.append_at_once(OFFSETS, 0, [(b"k", bytes(600_000))], now) == (offset, offset + 1)
            await universe.sleep(1.0)
            assert kept.recovery_point >= 1

    simulate(play)


def test_a_log_directory_goes_offline_when_a_synchronous_append_fails() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(OFFSETS.topic, cleanup_policy="compact")
            log = PartitionLog(made.replicas)
            log.append_at_once(OFFSETS, 0, [(b"k", b"v")], 1)
            universe.disk("broker").faults = [Fault("append", errno.EIO, ".log"), Fault("truncate", errno.EIO, ".log")]
            with pytest.raises(StorageError):
                log.append_at_once(OFFSETS, 0, [(b"k", b"w")], 1)
            assert not made.logs.directories[0].is_online

    simulate(play)
