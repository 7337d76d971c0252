"""When markers leave: only once the outcome is below the high watermark, and again wherever a coordinator that takes
over finds an outcome that is not complete."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.common.internal_topics import TRANSACTION_STATE_TOPIC
from kraft.coordinator.transaction.ending import End
from kraft.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.service import run
from tests.unit.coordinator.transaction.coordinating import PLACE, Markers, coordinating

STATE = TopicPartition(TRANSACTION_STATE_TOPIC, 0)


async def _open(coordinator: TransactionCoordinator) -> End:
    producer = await coordinator.init_producer_id("orders", 60_000, None)
    await coordinator.add_partitions("orders", *producer, [PLACE], 2)
    return End("orders", *producer, committed=True, version=2)


def test_no_marker_is_sent_before_the_outcome_is_committed():
    async def scenario():
        log, markers = MemoryLog(), Markers()
        async with coordinating(log, markers, 1) as coordinator, trio.open_nursery() as nursery:
            end = await _open(coordinator)
            log.held = True
            nursery.start_soon(coordinator.end_transaction, end)
            await trio.testing.wait_all_tasks_blocked()
            assert log.end_offset(STATE) == log.high_watermark(STATE) + 1, "the outcome is in the log"
            assert markers.asked == [], "and may be lost with its leader yet"
            log.replicate(STATE)
            await trio.testing.wait_all_tasks_blocked()
            assert [(each.partitions, epoch) for each, epoch in markers.asked] == [({PLACE}, 1)]

    run(scenario)


def test_a_new_coordinator_sends_the_markers_once_the_loaded_outcome_is_committed():
    async def scenario():
        log, markers = MemoryLog(), Markers()
        async with coordinating(log, markers, 1) as coordinator, trio.open_nursery() as nursery:
            end = await _open(coordinator)
            log.held = True
            nursery.start_soon(coordinator.end_transaction, end)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        async with coordinating(log, markers, 2) as coordinator:
            assert markers.asked == []
            log.held = False
            log.replicate(STATE)
            await trio.testing.wait_all_tasks_blocked()
            assert [(each.committed, epoch) for each, epoch in markers.asked] == [(True, 2)]
            assert coordinator.describe("orders").transaction_state == "PrepareCommit"
            markers.reachable.set()
            await trio.testing.wait_all_tasks_blocked()
            assert coordinator.describe("orders").transaction_state == "CompleteCommit"

    run(scenario)


def test_a_reelected_coordinator_sends_the_markers_with_its_new_epoch():
    async def scenario():
        log, markers = MemoryLog(), Markers()
        async with coordinating(log, markers, 1) as coordinator:
            await coordinator.end_transaction(await _open(coordinator))
            await trio.testing.wait_all_tasks_blocked()
            coordinator.on_resignation(0, 2)
            coordinator.on_election(0, 3)
            await trio.testing.wait_all_tasks_blocked()
            assert [epoch for _, epoch in markers.asked] == [1, 3]
            markers.reachable.set()
            await trio.testing.wait_all_tasks_blocked()
            assert coordinator.describe("orders").transaction_state == "CompleteCommit"

    run(scenario)


async def _next(coordinator: TransactionCoordinator, after: End, patience_s: float) -> int:
    """Begin the producer's next transaction; its error code."""
    try:
        await coordinator.add_partitions(
            after.transactional_id, after.producer_id, after.producer_epoch, [PLACE], 0, patience_s
        )
    except ApiError as refused:
        return refused.code
    return ErrorCode.NONE


async def _ended(coordinator: TransactionCoordinator) -> End:
    """A committed transaction of a producer that keeps its epoch, whose markers are on their way."""
    end = (await _open(coordinator))._replace(version=0)
    await coordinator.end_transaction(end)
    return end


def test_the_next_transaction_waits_for_the_markers_of_the_previous_one():
    async def scenario():
        log, markers = MemoryLog(), Markers()
        async with coordinating(log, markers, 1) as coordinator, trio.open_nursery() as nursery:
            end = await _ended(coordinator)
            codes: list[int] = []

            async def begin() -> None:
                codes.append(await _next(coordinator, end, 0.1))

            nursery.start_soon(begin)
            await trio.sleep(0.09)
            assert codes == []
            markers.reachable.set()
            await trio.testing.wait_all_tasks_blocked()
            assert codes == [ErrorCode.NONE]
            assert coordinator.describe("orders").transaction_state == "Ongoing"

    run(scenario)


@pytest.mark.parametrize("patience_s", [0.0, 0.1])
def test_a_producer_gets_concurrent_transactions_when_markers_take_too_long(patience_s):
    async def scenario():
        log, markers = MemoryLog(), Markers()
        async with coordinating(log, markers, 1) as coordinator:
            end = await _ended(coordinator)
            began = trio.current_time()
            assert await _next(coordinator, end, patience_s) == ErrorCode.CONCURRENT_TRANSACTIONS
            assert trio.current_time() - began == pytest.approx(patience_s)
            markers.reachable.set()
            await trio.testing.wait_all_tasks_blocked()
            assert await _next(coordinator, end, patience_s) == ErrorCode.NONE

    run(scenario)


def test_a_request_that_waits_for_markers_fails_when_the_coordinator_moves():
    async def scenario():
        log, markers = MemoryLog(), Markers()
        async with coordinating(log, markers, 1) as coordinator, trio.open_nursery() as nursery:
            end = await _ended(coordinator)
            codes: list[int] = []

            async def begin() -> None:
                codes.append(await _next(coordinator, end, 60.0))

            nursery.start_soon(begin)
            await trio.sleep(0.01)
            coordinator.on_resignation(0)
            markers.reachable.set()
            await trio.testing.wait_all_tasks_blocked()
            assert codes == [ErrorCode.NOT_COORDINATOR]

    run(scenario)
