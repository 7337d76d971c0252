"""WriteTxnMarkers: one answer a partition, once its marker is below the high watermark; zombies are fenced."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.coordinator.shard import Marker
from kraft.handlers.transactions.write_txn_markers import write_markers
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kraft.protocol.records.control_record import ControlRecordType, marker_of
from kraft.protocol.records.record_batch import batches
from kraft.storage.producers.verification import NOT_REQUIRED
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate


def marker(
    *partitions: tuple[str, int],
    producer_id: int = 7,
    epoch: int = 0,
    committed: bool = True,
    coordinator_epoch: int = 5,
    version: int = 0,
) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=committed,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


async def codes(made: Broker, *markers: WritableTxnMarker) -> dict[tuple[int, str, int], int]:
    response = await write_markers(WriteTxnMarkersRequest(markers=list(markers)), made.server.services)
    return {
        (producer.producer_id, topic.name, partition.partition_index): partition.error_code
        for producer in response.markers
        for topic in producer.topics
        for partition in topic.partitions
    }


def write(made: Broker, index: int = 0, *, producer_id: int = 7, epoch: int = 0) -> None:
    data = batch(
        b"a",
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
        timestamp_ms=made.world.clock.wall_ms(),
    )
    partition = made.partition("t", index)
    partition.log.append_as_leader(
        data, partition.leader_epoch, now_ms=made.world.clock.wall_ms(), verification=NOT_REQUIRED
    )
    partition.appended(len(data))


def test_markers_end_transactions_with_their_outcome() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            write(made, 0)
            write(made, 1)
            write(made, 1, producer_id=8)
            outcome = await codes(
                made,
                marker(("t", 0), ("t", 1), ("t", 9), ("missing", 0)),
                marker(("t", 1), producer_id=8, committed=False),
            )
            assert outcome == {
                (7, "t", 0): 0,
                (7, "t", 1): 0,
                (7, "t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                (7, "missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                (8, "t", 1): 0,
            }
            log = made.partition("t", 1).log
            found = [each for each in map(marker_of, batches(log.read(0, 10_000).read())) if each is not None]
            assert sorted((each.control_type, each.coordinator_epoch) for each in found) == [
                (ControlRecordType.ABORT, 5),
                (ControlRecordType.COMMIT, 5),
            ]
            assert log.last_stable_offset == 4
            assert [(each.producer_id, each.first_offset) for each in log.aborted_transactions(0, 4)] == [(8, 1)]

    simulate(play)


def test_a_marker_of_an_older_coordinator_is_fenced() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            write(made)
            assert set((await codes(made, marker(("t", 0), coordinator_epoch=5))).values()) == {0}
            late = await codes(made, marker(("t", 0), coordinator_epoch=4, committed=False))
            assert set(late.values()) == {ErrorCode.TRANSACTION_COORDINATOR_FENCED}
            old = await codes(made, marker(("t", 0), epoch=-1))
            assert set(old.values()) == {ErrorCode.INVALID_PRODUCER_EPOCH}
            assert made.partition("t").log.log_end_offset == 2

    simulate(play)


def test_from_transaction_version_2_a_marker_needs_a_newer_epoch_unless_it_is_a_retry() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            write(made)
            same = await codes(made, marker(("t", 0), version=2))
            assert set(same.values()) == {ErrorCode.INVALID_PRODUCER_EPOCH}
            for _ in range(2):
                assert set((await codes(made, marker(("t", 0), epoch=1, version=2))).values()) == {0}

    simulate(play)


@pytest.mark.parametrize("version", [0, 2])
def test_a_marker_sent_three_times_is_appended_once(version: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            write(made)
            wanted = marker(("t", 0), epoch=version // 2, version=version)
            assert [set((await codes(made, wanted)).values()) for _ in range(3)] == [{0}, {0}, {0}]
            assert made.partition("t").log.log_end_offset == 2

    simulate(play)


def test_a_repeated_marker_is_answered_once_it_is_replicated() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", replicas=(NODE, 2))
            write(made)
            answers: list[dict[tuple[int, str, int], int]] = []

            async def ask() -> None:
                answers.append(await codes(made, marker(("t", 0))))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                nursery.start_soon(ask)
                await universe.sleep(1)
                assert (answers, made.partition("t").log.log_end_offset) == ([], 2)
                made.partition("t").follower_fetched(2, 2, 0, 1, universe.time.now)
            assert answers == [{(7, "t", 0): 0}] * 2

    simulate(play)


def test_a_marker_is_answered_once_it_is_replicated() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            write(made)
            answers: list[dict[tuple[int, str, int], int]] = []

            async def ask() -> None:
                answers.append(await codes(made, marker(("t", 0), epoch=len(answers))))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                while made.partition("t").log.log_end_offset < 2:
                    await universe.sleep(0.01)
                await universe.sleep(1)
                assert not answers
                made.partition("t").follower_fetched(2, 2, 0, 1, universe.time.now)
            assert answers == [{(7, "t", 0): 0}]
            # Nobody replicates the next one; then the leadership moves.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await universe.sleep(1)
                made.change(topic, leader=2)
            assert answers[1:] == [{(7, "t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}]
            assert set((await codes(made, marker(("t", 0)))).values()) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}

    simulate(play)


def test_all_markers_are_appended_before_any_is_waited_for() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 3, replicas=(NODE, 2))
            for index in range(3):
                write(made, index)
            answers: list[dict[tuple[int, str, int], int]] = []

            async def ask() -> None:
                answers.append(await codes(made, marker(("t", 0), ("t", 1), ("t", 2))))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await universe.sleep(1)
                assert [made.partition("t", index).log.log_end_offset for index in range(3)] == [2, 2, 2]
                for index in (2, 0, 1):
                    assert not answers
                    made.partition("t", index).follower_fetched(2, 2, 0, 1, universe.time.now)
                    await universe.sleep(1)
            assert answers == [{(7, "t", index): 0 for index in range(3)}]

    simulate(play)


def test_with_flush_messages_a_marker_is_answered_after_its_sync() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2, flush_messages="1")
            for index in range(2):
                write(made, index)
            assert set((await codes(made, marker(("t", 0), ("t", 1)))).values()) == {0}
            assert [made.partition("t", index).log.recovery_point for index in range(2)] == [2, 2]

    simulate(play)


def test_a_marker_for_a_log_with_a_write_in_progress_delays_no_other_marker() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            for index in range(2):
                write(made, index)
            busy, other = made.partition("t", 0), made.partition("t", 1)
            made.replicas.writer.append(busy, memoryview(batch(bytes(300_000))), 1, made.world.clock.wall_ms(), 0)
            while not busy.log.is_appending:
                await trio.lowlevel.checkpoint()
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    assert set((await codes(made, marker(("t", 0), ("t", 1)))).values()) == {0}

                nursery.start_soon(ask)
                while other.log.log_end_offset < 2:
                    await trio.lowlevel.checkpoint()
                assert (busy.log.is_appending, busy.log.log_end_offset) == (True, 1)
            assert busy.log.log_end_offset == 3

    simulate(play)


def test_markers_for_group_offsets_go_through_the_group_coordinator() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("__consumer_offsets", 4)
            seen: list[tuple[int, Marker]] = []
            failures: list[int] = [0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]

            async def complete(partition: int, ended: Marker) -> None:
                seen.append((partition, ended))
                if code := failures.pop(0):
                    raise ApiError(code, "not ready")

            groups: Any = made.server.groups
            groups.complete_transaction = complete
            wanted = marker(("__consumer_offsets", 3), epoch=2, version=2)
            assert [set((await codes(made, wanted)).values()).pop() for _ in range(3)] == [
                0,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ]
            assert seen == [(3, Marker(7, 2, 5, True, 2))] * 3

    simulate(play)
