"""A broker whose older segments are in the remote tier answers as if they were on its disk."""

from __future__ import annotations

import errno
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import trio

from kraft.common.errors import KraftError
from kraft.common.ids import Uuid
from kraft.metadata.records.config_record import ConfigRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.fetch_request import ReplicaState
from kraft.protocol.records.control_record import ControlRecordType
from kraft.protocol.records.record_batch import batches
from kraft.remote.metadata_serde import encode_metadata
from kraft.remote.object_names import OBJECT_SUFFIXES, object_name
from kraft.replication.fetchers.leader_offsets import LocalStart
from kraft.replication.partition import Partition
from kraft.replication.replica_manager import ReplicaManager
from kraft.replication.tiers import remote_reads
from kraft.replication.tiers.remote_log_manager import RemoteLogManager
from kraft.replication.tiers.remote_topic_sweep import RemoteTopicSweep
from kraft.world.simulated.disk import Fault
from kraft.world.simulated.threads import SimulatedThreads
from kraft.world.turns import TURN_PARTITIONS
from tests.unit.remote.remote_metadata import SNAPSHOT
from tests.unit.remote.support import DELETED, DELETING, FINISHED, STARTED, uuid
from tests.unit.replication.tiers.tiered_broker import CONFIG, ROUND_SECONDS, URI, Tiered, fill, play
from tests.unit.server.brokers import NODE
from tests.unit.storage.producers.producer_batches import end
from tests.unit.storage.recovery.transactional_log import produce, write


def test_a_consumer_reads_both_tiers_in_order() -> None:
    async def body(tiered: Tiered) -> None:
        values = await fill(tiered)
        assert await tiered.values() == values
        assert await tiered.values(3) == values[3:]
        told = await tiered.fetch(3)
        assert (told.log_start_offset, told.high_watermark) == (0, 9)

    play(body)


def test_offset_lookups_cover_both_tiers() -> None:
    async def body(tiered: Tiered) -> None:
        assert [await tiered.offset(each) for each in (-2, -4, -5, -6)] == [
            (0, 0, -1),
            (0, 0, -1),
            (0, -1, -1),
            (0, -1, -1),
        ]
        await fill(tiered)
        assert [await tiered.offset(each) for each in (-1, -2, -4, -5, -6)] == [
            (0, 9, -1),
            (0, 0, -1),
            (0, 8, -1),
            (0, 7, -1),
            (0, 8, -1),
        ]

    play(body)


def test_no_response_waits_for_a_copy_when_all_records_are_in_the_remote_tier() -> None:
    async def body(tiered: Tiered) -> None:
        assert await tiered.offset(-6) == (0, -1, -1), "the log is empty"
        tiered.append(b"a")
        assert await tiered.offset(-6) == (0, 0, -1)
        tiered.roll()
        await tiered.rounds()
        assert await tiered.offset(-5) == (0, 0, -1)
        assert await tiered.offset(-6) == (0, -1, -1)
        tiered.append(b"b")
        assert await tiered.offset(-6) == (0, 1, -1)

    play(body)


def test_lookups_by_time_cover_both_tiers() -> None:
    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        assert await tiered.offset(0) == (0, 0, 1000)
        assert await tiered.offset(2000) == (0, 2, 2000)
        assert await tiered.offset(2001) == (0, 4, 3000)
        assert await tiered.offset(4001) == (0, 8, 900_000)
        assert await tiered.offset(900_001) == (0, -1, -1)
        assert await tiered.offset(-3) == (0, 8, 900_000)

    play(body)


def test_remote_records_beyond_the_local_log_are_not_found() -> None:
    async def body(tiered: Tiered) -> None:
        tiered.append(b"0", b"1", timestamp_ms=1000)
        tiered.append(b"lost", b"lost", timestamp_ms=2000)
        tiered.roll()
        tiered.append(b"lost")
        await tiered.rounds()
        tiered.log.truncate_to(2, tiered.made.world.clock.wall_ms())
        tiered.made.change(tiered.made.replicas.topic_ids["t"], leader=NODE)
        assert await tiered.offset(-5) == (0, 1, -1)
        tiered.append(b"2", b"3", timestamp_ms=3000)
        tiered.roll()
        tiered.append(b"4", timestamp_ms=4000)
        tiered.set("local.retention.bytes", "1")
        await tiered.rounds(2)
        assert tiered.log.local_log_start_offset == 4
        assert await tiered.values() == [b"0", b"1", b"2", b"3", b"4"]
        assert await tiered.offset(1500) == (0, 2, 3000)

    play(body, local_retention_bytes="100000")


def test_a_remote_copy_deleted_while_cached_is_read_from_another_copy() -> None:
    async def body(tiered: Tiered) -> None:
        values = await fill(tiered, 1)
        (known,) = tiered.copies()
        other = replace(known, segment_id=Uuid(bytes(16)), state=STARTED)
        for suffix in OBJECT_SUFFIXES:
            data = tiered.store.objects.pop(object_name(known, suffix), None)
            if data is not None:
                tiered.store.objects[object_name(other, suffix)] = data
        await tiered.write(other.to_record(), other.state_update(FINISHED, broker_id=1, now_ms=0))
        await tiered.write(*(known.state_update(each, broker_id=1, now_ms=0) for each in (DELETING, DELETED)))
        assert await tiered.values() == values

    play(body)


def test_the_largest_timestamp_may_be_in_the_remote_tier() -> None:
    async def body(tiered: Tiered) -> None:
        tiered.append(b"late", timestamp_ms=5_000_000)
        tiered.roll()
        tiered.append(b"early", timestamp_ms=1000)
        await tiered.rounds()
        assert tiered.log.local_log_start_offset == 1
        assert await tiered.offset(-3) == (0, 0, 5_000_000)

    play(body)


def test_a_read_committed_fetch_gets_the_aborted_transactions_of_the_remote_tier() -> None:
    async def body(tiered: Tiered) -> None:
        write(tiered.log)  # Aborted at 0 and 4, committed at 2.
        tiered.roll()
        tiered.append(b"last")
        await tiered.rounds()
        assert tiered.log.local_log_start_offset == 6
        told = await tiered.fetch(0, isolation=1)
        assert sorted(each.first_offset for each in told.aborted_transactions) == [0, 4]
        assert (await tiered.fetch(0)).aborted_transactions is None

    play(body)


def test_a_transaction_begun_in_the_remote_tier_and_aborted_on_disk_is_reported_to_readers() -> None:
    async def body(tiered: Tiered) -> None:
        produce(tiered.log, 0)
        tiered.append(b"between")
        tiered.roll()
        end(tiered.log, ControlRecordType.ABORT)
        tiered.log.update_high_watermark(tiered.log.log_end_offset)
        await tiered.rounds()
        assert tiered.log.local_log_start_offset == 2
        told = await tiered.fetch(0, isolation=1)
        assert [each.first_offset for each in told.aborted_transactions] == [0]

    play(body)


def test_a_replica_removed_during_a_remote_lookup_of_aborted_transactions_is_a_storage_error() -> None:
    async def body(tiered: Tiered) -> None:
        write(tiered.log)
        tiered.roll()
        tiered.append(b"last")
        await tiered.rounds()
        answers: list[Any] = []

        async def fetch() -> None:
            answers.append(await tiered.fetch(0, isolation=1, max_wait_ms=0))

        remote, partition = tiered.made.replicas.remote, tiered.made.partition("t")
        assert remote is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            await tiered.universe.sleep(0.001)
            remote.reads.forget(partition)
        assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR]

    play(body)


def test_a_follower_behind_the_local_log_is_sent_to_the_remote_tier() -> None:
    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        told = await tiered.fetch(0, replica_state=ReplicaState(replica_id=2, replica_epoch=-1))
        assert told.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        told = await tiered.fetch(8, replica_state=ReplicaState(replica_id=2, replica_epoch=-1))
        assert told.error_code in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    play(body)


def test_a_follower_starts_after_the_last_remote_segment() -> None:
    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        remote = tiered.made.replicas.remote
        assert remote is not None
        for offset in (7, 8):
            start = await remote.remote_start(tiered.made.partition("t"), LocalStart(offset, 0, 0))
            assert start.offset == 8, "what is known of producers is that of the end of the copy"

    play(body)


def test_a_failing_store_is_a_retriable_error() -> None:
    async def body(tiered: Tiered) -> None:
        values = await fill(tiered)
        tiered.store.faults.refuses = True
        assert (await tiered.fetch(0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await tiered.offset(2000))[0] == ErrorCode.KAFKA_STORAGE_ERROR
        told = await tiered.fetch(8)
        assert (told.error_code, next(batches(told.records)).base_offset) == (0, 8)
        tiered.store.faults.refuses = False
        assert await tiered.values() == values

    play(body)


def test_the_records_of_a_slow_store_answer_a_later_fetch() -> None:
    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        tiered.store.faults.late_rate, tiered.store.faults.late_seconds = 1.0, 1.5
        told = await tiered.fetch(0)
        assert (told.error_code, bytes(told.records or b"")) == (0, b"")
        await tiered.universe.sleep(5)
        told = await tiered.fetch(0)
        assert next(batches(told.records)).base_offset == 0

    play(body)


def test_the_number_of_cached_remote_reads_is_limited_whatever_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_reads, "KEPT_READS_MAX", 3)

    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        for offset in range(8):
            await tiered.fetch(offset)
        tiered.store.faults.refuses = True
        told = [(await tiered.fetch(offset)).error_code for offset in (0, 4, 5, 6, 7)]
        assert told == [ErrorCode.KAFKA_STORAGE_ERROR] * 2 + [0] * 3

    play(body)


def test_no_segment_is_removed_from_disk_while_the_store_fails() -> None:
    async def body(tiered: Tiered) -> None:
        tiered.store.faults.failure_rate = 1.0
        tiered.append(b"a")
        tiered.roll()
        tiered.append(b"b")
        await tiered.rounds(10)
        assert tiered.log.local_log_start_offset == 0
        await tiered.made.server.log_tasks.apply_retention()
        assert (tiered.log.local_log_start_offset, tiered.log.log_start_offset) == (0, 0)
        tiered.store.faults.failure_rate = 0.0
        await tiered.rounds(15)
        assert tiered.log.local_log_start_offset == 1

    play(body, retention_ms="1", local_retention_ms="1")


def test_deleting_a_topic_while_a_segment_is_removed_from_disk_logs_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory was missed: who had its name by then was taken offline with all of the log directory."""
    run = SimulatedThreads.run
    waits, released = trio.Event(), trio.Event()

    async def held(threads: SimulatedThreads, job: Any, *arguments: Any) -> Any:
        if arguments == ("/data/t-0",):
            waits.set()
            await released.wait()
        return await run(threads, job, *arguments)

    async def body(tiered: Tiered) -> None:
        monkeypatch.setattr(SimulatedThreads, "run", held)
        tiered.append(b"a")
        tiered.roll()
        tiered.append(b"b")
        with tiered.made.world.clock.move_on_after(10 * ROUND_SECONDS):
            await waits.wait()
        assert tiered.log.local_log_start_offset == 1
        tiered.made.delete_topic(tiered.made.replicas.topic_ids["t"])
        tiered.made.topic("t", **CONFIG)
        released.set()
        await tiered.rounds()
        assert tiered.made.logs.online()
        tiered.append(b"c")

    play(body)


def test_a_segment_removal_that_fails_on_a_full_disk_succeeds_in_the_next_round() -> None:
    async def body(tiered: Tiered) -> None:
        fault = Fault("rename", errno.ENOSPC, "00.log")
        tiered.universe.disk("broker").faults = [fault]
        tiered.append(b"a")
        tiered.roll()
        tiered.append(b"b")
        await tiered.rounds(10)
        assert fault.bites == 1
        assert tiered.made.logs.online()
        assert tiered.log.local_log_start_offset == 1

    play(body)


def test_retention_counts_both_tiers() -> None:
    async def body(tiered: Tiered) -> None:
        values = await fill(tiered)
        assert len({name.split("/")[-1][:20] for name in tiered.store.objects}) == 4
        size = tiered.log.segments[0].size
        tiered.made.publish(*configs(retention_bytes=str(3 * size)))
        await tiered.rounds(2)
        start = tiered.log.log_start_offset
        assert 0 < start < 8
        assert await tiered.offset(-2) == (0, start, -1)
        assert (await tiered.fetch(0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await tiered.values(start) == values[start:]
        assert min(int(name.split("/")[-1][:20]) for name in tiered.store.objects) == start

    play(body)


def configs(topic: str = "t", **values: str) -> list[Any]:
    return [
        ConfigRecord(resource_type=2, resource_name=topic, name=key.replace("_", "."), value=value)
        for key, value in values.items()
    ]


def test_delete_records_covers_both_tiers() -> None:
    async def body(tiered: Tiered) -> None:
        values = await fill(tiered)
        topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=5)])
        answer = await tiered.made.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000))
        assert (answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].low_watermark) == (0, 5)
        await tiered.rounds(2)
        assert (await tiered.fetch(4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await tiered.values(5) == values[5:]
        assert min(int(name.split("/")[-1][:20]) for name in tiered.store.objects) == 4

    play(body)


def test_a_log_with_remote_copying_stopped_becomes_an_ordinary_log() -> None:
    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        tiered.made.publish(
            *configs(remote_log_copy_disable="true", retention_ms="600000", local_retention_ms="600000")
        )
        tiered.roll()
        tiered.append(b"new")
        await tiered.rounds(2)
        tier = tiered.made.partition("t").tier
        assert tier is not None
        assert (tier.copy_lag_segments, tier.copy_lag_bytes) == (0, 0), "nothing is to be copied"
        await tiered.made.server.log_tasks.apply_retention()
        await tiered.rounds(2)
        await tiered.made.server.log_tasks.apply_retention()
        assert tiered.store.objects == {}
        assert tiered.log.log_start_offset == tiered.log.segments[0].base_offset == 9

    play(body)


async def current() -> None:
    await trio.lowlevel.checkpoint()


def test_remote_segments_of_a_deleted_topic_are_deleted_and_no_others() -> None:
    async def body(tiered: Tiered) -> None:
        made, metadata = tiered.made, tiered.metadata
        made.topic("metadata", partitions=2)
        store = made.world.objects.open(URI, timeout_seconds=5.0)
        log = made.server.services.log
        sweep = RemoteTopicSweep(made.replicas, metadata, "metadata", store, current, lambda: 1.0, log)
        await fill(tiered)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sweep.run)
            await tiered.rounds(5)
            assert len(tiered.store.objects) >= 4 * 5
            made.delete_topic(made.replicas.topic_ids["t"])
            tiered.store.faults.failure_rate = 0.3
            await tiered.rounds(30)
            tiered.store.faults.failure_rate = 0.0
            await tiered.rounds(5)
            assert tiered.store.objects == {}
            count = sum(map(len, metadata.records.values()))
            await tiered.rounds(10)
            assert sum(map(len, metadata.records.values())) == count, "it goes on for ever"
            nursery.cancel_scope.cancel()

    play(body)


def test_the_sweep_reads_a_recreated_metadata_topic_from_its_start() -> None:
    async def body(tiered: Tiered) -> None:
        made, metadata = tiered.made, tiered.metadata
        made.topic("metadata", partitions=2)
        store = made.world.objects.open(URI, timeout_seconds=5.0)
        sweep = RemoteTopicSweep(
            made.replicas, metadata, "metadata", store, current, lambda: 1.0, made.server.services.log
        )
        await fill(tiered)
        made.delete_topic(made.replicas.topic_ids["t"])
        told, metadata.records = metadata.records, {index: [encode_metadata(SNAPSHOT)] * 100 for index in range(2)}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sweep.run)
            await tiered.rounds(5)
            assert tiered.store.objects
            metadata.topic_id, metadata.records = uuid(2), told
            await tiered.rounds(10)
            assert tiered.store.objects == {}
            nursery.cancel_scope.cancel()

    play(body)


async def behind() -> None:
    await trio.lowlevel.checkpoint()
    raise KraftError("nobody tells")


def test_remote_segments_of_a_topic_this_broker_has_not_loaded_are_kept() -> None:
    async def body(tiered: Tiered) -> None:
        made = tiered.made
        made.topic("metadata", partitions=2)
        store = made.world.objects.open(URI, timeout_seconds=5.0)
        log = made.server.services.log
        sweep = RemoteTopicSweep(made.replicas, tiered.metadata, "metadata", store, behind, lambda: 1.0, log)
        await fill(tiered)
        made.delete_topic(made.replicas.topic_ids["t"])
        stored = dict(tiered.store.objects)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sweep.run)
            await tiered.rounds(10)
            assert tiered.store.objects == stored
            nursery.cancel_scope.cancel()

    play(body)


def test_copied_and_read_bytes_and_lag_are_counted() -> None:
    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        await tiered.values()
        tier = tiered.made.partition("t").tier
        assert tier is not None
        assert (tier.copies, tier.failed_copies, tier.copy_lag_segments, tier.metadata_count) == (4, 0, 0, 4)
        assert tier.copied_bytes == tier.remote_bytes > 0
        assert tier.fetches > 0
        assert (tier.failed_fetches, tier.last_error) == (0, "")
        assert tier.fetched_bytes == tier.remote_bytes, "once each"

        tiered.store.faults.refuses = True
        tiered.append(b"waits")
        tiered.roll()
        await tiered.rounds(2)
        assert tier.failed_copies > 0
        waiting = tiered.log.segments[:-1]
        assert tier.copy_lag_segments == len(waiting) > 0
        assert tier.copy_lag_bytes == sum(segment.size for segment in waiting)
        assert "refuses" in tier.last_error
        waited = tier.copy_wait(tiered.made.world.clock.now())
        assert 0 < waited < 2 * ROUND_SECONDS
        await tiered.rounds(2)
        assert tier.copy_wait(tiered.made.world.clock.now()) > waited + ROUND_SECONDS, "of the same segment"
        assert (await tiered.fetch(0)).error_code == 0, "it is kept for a while"

        tiered.store.faults.refuses = False
        await tiered.rounds(20)
        assert (tier.copy_lag_segments, tier.last_error) == (0, "")
        assert tier.copy_wait(tiered.made.world.clock.now()) == 0.0
        assert tier.deletes > 0, "the copies that failed"

    play(body)


def test_only_changed_partitions_are_checked_for_tiering(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(tiered: Tiered) -> None:
        made = tiered.made
        topic_id = made.topic("many", 2000)
        await tiered.rounds()
        looked_at: list[str] = []
        is_ours = RemoteLogManager._is_ours

        def counted(self: RemoteLogManager, partition: Partition) -> bool:
            looked_at.append(str(partition))
            return is_ours(self, partition)

        def walked(self: object) -> Any:
            raise AssertionError("all partitions are walked")

        monkeypatch.setattr(RemoteLogManager, "_is_ours", counted)
        monkeypatch.setattr(ReplicaManager, "__iter__", walked)
        made.change(topic_id, 7, leader=2)
        made.change(topic_id, 8, leader=2)
        made.change(topic_id, 7, leader=1)
        await tiered.rounds(5)
        assert [each for each in looked_at if each != "t-0"] == ["many-7", "many-8"]
        monkeypatch.undo()

        made.publish(*configs("many", remote_storage_enable="true"))
        await tiered.rounds(2)
        assert all(made.partition("many", index).tier is not None for index in range(2000))

    play(body)


def test_checks_of_many_changed_partitions_yield_to_other_tasks() -> None:
    async def body(tiered: Tiered) -> None:
        made, manager, begun = tiered.made, tiered.made.replicas.remote, [0]
        assert manager is not None

        async def others() -> None:
            while True:
                begun.append(len(manager._working))
                await trio.lowlevel.checkpoint()

        made.topic("many", 3 * TURN_PARTITIONS, **CONFIG)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            for _ in range(10):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert begun[-1] == 3 * TURN_PARTITIONS + 1
        assert max(after - before for before, after in pairwise(begun)) <= 2 * TURN_PARTITIONS

    play(body)


SWITCHED_OFF = {"remote_storage_enable": "false", "remote_log_delete_on_disable": "true"}


def test_disabling_tiering_keeps_the_local_records_and_deletes_the_remote_ones() -> None:
    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        tiered.store.faults.refuses = True
        tiered.made.publish(*configs(**SWITCHED_OFF))
        await tiered.rounds(2)
        assert tiered.log.log_start_offset == tiered.log.segments[0].base_offset == 8, "before anything is deleted"
        assert tiered.store.objects
        tier = tiered.made.partition("t").tier
        assert tier is not None
        assert (tier.put_off, tier.deletes, tier.failed_deletes) == (1, tier.failed_deletes, tier.deletes)
        assert tier.failed_deletes > 0
        assert (tier.copy_lag_segments, tier.first_waiting) == (0, None)
        assert (tier.delete_lag_segments, tier.metadata_count) == (4, 4)
        tiered.store.faults.refuses = False
        await tiered.rounds(20)
        assert tiered.store.objects == {}
        assert tier.deletes - tier.failed_deletes == 4
        assert (await tiered.fetch(0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await tiered.values(8) == [b"last"]
        tiered.roll()
        tiered.append(b"stays here")
        asked = tiered.metadata.asked
        await tiered.rounds(5)
        assert tiered.store.objects == {}
        assert tiered.metadata.asked == asked, "nobody looks again"
        assert tiered.made.partition("t").tier is None

        tiered.made.publish(*configs(remote_storage_enable="true"))
        await tiered.rounds(2)
        assert {int(name.split("/")[-1][:20]) for name in tiered.store.objects} == {8}
        assert await tiered.values(8) == [b"last", b"stays here"]

    play(body)


def test_a_new_leader_deletes_expired_remote_segments_without_earlier_tiering_work() -> None:
    """As a follower it left the deletion to its leader, which may have died over it."""

    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        topic_id = tiered.made.partition("t").topic_id
        tiered.made.change(topic_id, leader=NODE + 1, isr=[NODE, NODE + 1])
        tiered.made.publish(*configs(**SWITCHED_OFF))
        await tiered.rounds(3)
        assert len(tiered.store.objects) > 0, "that is for the leader to do"
        tiered.made.change(topic_id, leader=NODE, isr=[NODE])
        await tiered.rounds(20)
        assert tiered.store.objects == {}
        assert await tiered.values(8) == [b"last"]

    play(body)


def test_a_topic_that_was_never_tiered_may_set_a_policy_for_disabling_tiering() -> None:
    async def body(tiered: Tiered) -> None:
        tiered.append(b"x")
        await tiered.rounds(2)
        assert await tiered.values() == [b"x"]
        assert tiered.made.partition("t").tier is None

    play(body, **SWITCHED_OFF)
