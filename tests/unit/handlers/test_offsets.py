"""ListOffsets and DeleteRecords against a broker over the simulated disk."""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest
import trio

from kraft.metadata.records.fence_broker_record import FenceBrokerRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.records.builder import Record, build_batch, with_max_timestamp
from kraft.protocol.records.record_batch import CREATE_TIME, RecordBatch
from kraft.replication.partition import READ_COMMITTED, READ_UNCOMMITTED
from kraft.replication.time_lookups import LOOK_UPS_AT_ONCE_MAX
from kraft.storage.log_validator import AppendOrigin
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate

LATEST, EARLIEST = -1, -2
BASE_TIMESTAMP, BASE_TIMESTAMP_AT = Struct(">q"), 27


def append(made: Broker, count: int = 1) -> int:
    """`count` batches; the timestamp of the last."""
    now = made.world.clock.wall_ms()
    for number in range(count):
        made.partition("t").append(memoryview(batch(b"v", timestamp_ms=now + number)), 1, now, 0)
    return now + count - 1


async def look_up(made: Broker, timestamp: int, version: int = 7, **fields: Any) -> Any:
    topics = [ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=timestamp)])]
    return (
        (await made.ask(ListOffsetsRequest(**{"replica_id": -1, "topics": topics, **fields}), version))
        .topics[0]
        .partitions[0]
    )


async def delete(made: Broker, topic: str, offset: int) -> tuple[int, int]:
    topics = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    answer = (await made.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000))).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def test_a_new_leader_returns_no_end_offset_before_its_epoch_is_committed() -> None:
    """The high watermark that it knows may be behind what its predecessor told clients (KIP-207)."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            timestamp = append(made, 3)
            made.change(topic, leader=NODE)
            assert (await look_up(made, LATEST)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            assert (await look_up(made, LATEST, 4)).error_code == ErrorCode.LEADER_NOT_AVAILABLE
            assert (await look_up(made, timestamp)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            earliest, debugging = await look_up(made, EARLIEST), await look_up(made, LATEST, replica_id=-2)
            assert (earliest.error_code, earliest.offset, debugging.error_code, debugging.offset) == (0, 0, 0, 3)
            made.partition("t").follower_fetched(2, 3, 0, 1, universe.time.now)
            latest = await look_up(made, LATEST)
            assert (latest.error_code, latest.offset, latest.leader_epoch) == (0, 3, 1)
            assert (await look_up(made, timestamp)).offset == 2

    simulate(play)


@pytest.mark.parametrize("isolation_level", [READ_UNCOMMITTED, READ_COMMITTED])
def test_clients_get_the_high_watermark_as_the_latest_offset(isolation_level: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            append(made, 3)
            made.change(topic, leader=NODE)
            made.partition("t").follower_fetched(2, 3, 0, 1, universe.time.now)
            uncommitted = append(made, 4)  # The last of them is later than all before.
            latest = await look_up(made, LATEST, isolation_level=isolation_level)
            assert (latest.error_code, latest.offset) == (0, 3)
            found = await look_up(made, uncommitted, isolation_level=isolation_level)
            assert (found.error_code, found.offset) == (0, -1)
            assert (await look_up(made, LATEST, replica_id=-2)).offset == 7

    simulate(play)


def test_a_log_deleted_during_a_lookup_does_not_fail_the_disk() -> None:
    """Its files were missed, and the topic that has its name by then was taken offline with all of its directory."""

    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made, trio.open_nursery() as nursery:
            topic = made.topic("t", file_delete_delay_ms="0")
            timestamp = append(made)
            answers: list[Any] = []

            async def ask() -> None:
                answers.append(await look_up(made, timestamp))

            for _ in range(LOOK_UPS_AT_ONCE_MAX):
                await made.replicas.time_lookups._free.acquire()
            nursery.start_soon(ask)
            await universe.sleep(1)
            made.delete_topic(topic)
            await universe.sleep(1)
            await made.server.log_tasks.delete_due()
            made.topic("t")
            made.replicas.time_lookups._free.release()
            await universe.sleep(1)
            assert [answer.error_code for answer in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            assert len(made.logs.online()) == 2
            made.partition("t")

    simulate(play)


def test_a_record_with_a_timestamp_beyond_the_largest_is_not_found_by_time() -> None:
    """It could not be told: every look-up that came by it closed its client's connection."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            now = made.world.clock.wall_ms()
            data = bytearray(build_batch([Record(0, 0, None, b"v"), Record(1, 2**63 - 1, None, b"v")]))
            BASE_TIMESTAMP.pack_into(data, BASE_TIMESTAMP_AT, now)
            made.partition("t").append(
                memoryview(with_max_timestamp(RecordBatch(data), CREATE_TIME, now + 1)),
                1,
                now,
                AppendOrigin.COORDINATOR,  # A client's is refused, unless its header is believed.
            )
            assert (await look_up(made, now)).offset == 0
            assert (await look_up(made, now + 1)).offset == -1
            last = append(made, 2)
            assert (await look_up(made, last)).offset == 3

    simulate(play)


def test_records_are_deleted_up_to_the_high_watermark() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made, 3)
            assert await delete(made, "t", 2) == (0, 2)
            assert await delete(made, "t", 1) == (0, 2)
            assert await delete(made, "t", 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
            assert await delete(made, "t", -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
            assert await delete(made, "t", -1) == (0, 3)
            assert (await look_up(made, EARLIEST)).offset == 3

    simulate(play)


def test_delete_records_is_refused_for_compacted_and_internal_topics() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("compacted", cleanup_policy="compact")
            made.topic("__consumer_offsets", cleanup_policy="compact")
            assert await delete(made, "compacted", 0) == (ErrorCode.POLICY_VIOLATION, -1)
            assert await delete(made, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
            assert await delete(made, "missing", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    simulate(play)


@pytest.mark.parametrize("how", ["follows", "dies", "is no replica any more"])
def test_delete_records_completes_when_the_last_follower_has_the_new_log_start(how: str) -> None:
    answered: list[float] = []

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.publish(made.register(2))
            topic = made.topic("t", replicas=(NODE, 2))
            append(made, 3)
            made.partition("t").follower_fetched(2, 3, 0, 1, universe.time.now)

            async def ask() -> None:
                assert await delete(made, "t", 2) == (0, 2)
                answered.append(universe.time.now - start)

            start = universe.time.now
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await universe.sleep(0.305)
                made.partition("t").follower_fetched(2, 3, 1, 1, universe.time.now)
                await universe.sleep(0.2)
                assert not answered
                if how == "follows":
                    made.partition("t").follower_fetched(2, 3, 2, 1, universe.time.now)
                elif how == "dies":
                    made.publish(FenceBrokerRecord(id=2, epoch=1))
                else:
                    made.change(topic, replicas=[NODE], isr=[NODE])

    simulate(play)
    assert answered == [pytest.approx(0.505, abs=1e-3)]


def test_delete_records_times_out_when_a_follower_keeps_the_old_log_start() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.publish(made.register(2))
            made.topic("t", replicas=(NODE, 2))
            append(made, 3)
            made.partition("t").follower_fetched(2, 3, 0, 1, universe.time.now)
            start = universe.time.now
            assert await delete(made, "t", 2) == (ErrorCode.REQUEST_TIMED_OUT, 0)
            assert universe.time.now - start == pytest.approx(1.0)
            assert not made.partition("t").has_waiters

    simulate(play)
