"""What a leader tells members of a share group, while the share coordinator takes its time, fails or fences it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.coordinator.share.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    NO_OFFSET,
    SharePartitionKey,
    StateBatch,
)
from kraft.coordinator.share.share_states import DeliveryStates, ReadState
from kraft.protocol.error_codes import ErrorCode
from kraft.share.acknowledgement import ACCEPT, REJECT, RENEW, Acknowledgement
from kraft.share.dead_letters import DELIVERED_TOO_OFTEN, REJECTED, GivenUp
from kraft.share.led_share_partition import LedSharePartition
from kraft.share.share_partition import Limits
from tests.unit.coordinator.fakes import TrioClock
from tests.unit.coordinator.service import run

LIMITS = Limits(lock_ms=30_000)
BATCH = [(0, 9)]


class Coordinator(DeliveryStates):
    """A share coordinator that answers once its `gate` is open, and raises the first of `refusals`."""

    def __init__(self, state: ReadState | None = None) -> None:
        self.state = state or ReadState(7, 0, ())
        self.gate = trio.Event()
        self.gate.set()
        self.refusals: list[ApiError] = []
        self.writes: list[tuple[int, int, int, int, list[StateBatch]]] = []

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState:
        await trio.lowlevel.checkpoint()
        return self.state

    async def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        self.writes.append((state_epoch, leader_epoch, start_offset, delivery_complete_count, list(batches)))
        await self.gate.wait()
        await trio.lowlevel.checkpoint()
        if self.refusals:
            raise self.refusals.pop(0)


async def led(
    coordinator: Coordinator,
    changed: Callable[[], None] = lambda: None,
    limits: Limits = LIMITS,
    locked: Callable[[float], None] = lambda deadline: None,
) -> LedSharePartition:
    async def first_offset() -> int:
        await trio.lowlevel.checkpoint()
        return 100

    key = SharePartitionKey("g", bytes(16), 0)
    partition = LedSharePartition(coordinator, key, 3, TrioClock(), lambda: limits, changed, locked)
    await partition.load(first_offset)
    return partition


def accept(first: int, last: int) -> list[Acknowledgement]:
    return [Acknowledgement(first, last, [ACCEPT])]


def test_a_new_group_starts_where_its_settings_say() -> None:
    async def scenario() -> None:
        assert (await led(Coordinator(ReadState(0, NO_OFFSET, ())))).window.start_offset == 100
        assert (await led(Coordinator(ReadState(0, 4, ())))).window.start_offset == 4

    run(scenario)


def test_an_acknowledgement_is_answered_once_durable_and_its_record_stays_unavailable_meanwhile() -> None:
    async def scenario() -> None:
        coordinator = Coordinator()
        partition = await led(coordinator)
        partition.acquire("a", 0, BATCH, 10)
        coordinator.gate = trio.Event()
        done: list[str] = []

        async def acknowledge() -> None:
            await partition.acknowledge("a", accept(0, 9))
            done.append("a")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(acknowledge)
            await trio.testing.wait_all_tasks_blocked()
            assert done == []
            assert partition.window.start_offset == 0
            assert partition.acquire("b", 0, BATCH, 10) == []
            with pytest.raises(ApiError) as refused:
                partition.window.acknowledge("a", accept(0, 0), LIMITS, 0)
            assert refused.value.code == ErrorCode.INVALID_RECORD_STATE
            coordinator.gate.set()
        assert (done, partition.window.start_offset) == (["a"], 10)
        assert coordinator.writes == [(7, 3, 10, 0, [StateBatch(0, 9, ACKNOWLEDGED, 1)])]

    run(scenario)


def test_acknowledgements_during_a_write_are_written_together_afterwards() -> None:
    async def scenario() -> None:
        coordinator = Coordinator()
        partition = await led(coordinator)
        partition.acquire("a", 0, BATCH, 10)
        coordinator.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            for offset in range(4):
                nursery.start_soon(partition.acknowledge, "a", accept(offset, offset))
                await trio.testing.wait_all_tasks_blocked()
            coordinator.gate.set()
        sizes = [sum(each.last_offset - each.first_offset + 1 for each in write[4]) for write in coordinator.writes]
        assert sizes == [1, 3]
        assert partition.window.start_offset == 4

    run(scenario)


def test_a_failed_write_leaves_the_records_with_their_member_for_a_retry() -> None:
    async def scenario() -> None:
        coordinator, told = Coordinator(), list[str]()
        partition = await led(coordinator, lambda: told.append("changed"))
        partition.acquire("a", 0, BATCH, 10)
        coordinator.refusals = [ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        with pytest.raises(ApiError) as refused:
            await partition.acknowledge("a", accept(0, 9))
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert told == ["changed"], "their locks expire again"
        assert partition.window.start_offset == 0
        await partition.acknowledge("a", accept(0, 9))
        assert partition.window.start_offset == 10

    run(scenario)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH])
def test_a_fenced_leader_acquires_no_more_records(code: int) -> None:
    async def scenario() -> None:
        coordinator, told = Coordinator(), list[str]()
        partition = await led(coordinator, lambda: told.append("changed"))
        partition.acquire("a", 0, BATCH, 10)
        coordinator.refusals = [ApiError(code)]
        for action in (
            lambda: partition.acknowledge("a", accept(0, 4)),
            lambda: partition.acknowledge("a", accept(5, 9)),
            lambda: partition.release("a"),
        ):
            with pytest.raises(ApiError) as refused:
                await action()
            assert refused.value.code == code
        with pytest.raises(ApiError):
            partition.acquire("b", 10, [(10, 19)], 10)
        assert (told, len(coordinator.writes), partition.next_deadline_s()) == (["changed"], 1, None)

    run(scenario)


def test_a_cancelled_request_does_not_cancel_the_acknowledgements_of_others() -> None:
    async def scenario() -> None:
        coordinator = Coordinator()
        partition = await led(coordinator)
        partition.acquire("a", 0, BATCH, 10)
        coordinator.gate = trio.Event()
        scope = trio.CancelScope()
        done: list[str] = []

        async def cancelled() -> None:
            with scope:
                await partition.acknowledge("a", accept(0, 0))

        async def other() -> None:
            await partition.acknowledge("a", accept(1, 1))
            done.append("other")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancelled)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(other)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            coordinator.gate.set()
        assert (done, partition.window.start_offset) == (["other"], 2)

    run(scenario)


def test_an_expired_lock_makes_its_records_available_and_reports_it() -> None:
    async def scenario() -> None:
        coordinator, told = Coordinator(), list[str]()
        partition = await led(coordinator, lambda: told.append("changed"))
        partition.acquire("a", 0, BATCH, 10)
        assert partition.next_deadline_s() == pytest.approx(30)
        await partition.expire()
        assert (told, coordinator.writes) == ([], [])
        await trio.sleep(30.1)
        await partition.expire()
        assert told == ["changed"]
        assert coordinator.writes[0][4] == [StateBatch(0, 9, AVAILABLE, 1)]
        assert partition.acquire("b", 0, BATCH, 10) == [(0, 9, 2)]

    run(scenario)


def test_the_deadlines_of_new_and_renewed_locks_are_reported() -> None:
    async def scenario() -> None:
        deadlines = list[float]()
        partition = await led(Coordinator(), locked=deadlines.append)
        partition.acquire("a", 0, BATCH, 10)
        await trio.sleep(1)
        await partition.acknowledge("a", [Acknowledgement(0, 4, [RENEW]), Acknowledgement(5, 9, [ACCEPT])])
        assert deadlines == pytest.approx([30, 31])

    run(scenario)


def test_records_of_aborted_transactions_are_not_delivered() -> None:
    async def scenario() -> None:
        partition = await led(Coordinator())
        assert partition.acquire("a", 0, BATCH, 10, aborted=[(0, 1), (4, 5)]) == [(2, 3, 1), (6, 9, 1)]
        assert partition.window.start_offset == 2
        await partition.acknowledge("a", [*accept(2, 3), *accept(6, 9)])
        assert partition.window.start_offset == 10

    run(scenario)


def test_a_resigning_leader_answers_waiting_requests() -> None:
    async def scenario() -> None:
        coordinator = Coordinator()
        partition = await led(coordinator)
        partition.acquire("a", 0, BATCH, 10)
        coordinator.gate = trio.Event()
        codes: list[int] = []

        async def acknowledge(offset: int) -> None:
            try:
                await partition.acknowledge("a", accept(offset, offset))
            except ApiError as refused:
                codes.append(refused.code)

        async with trio.open_nursery() as nursery:
            for offset in range(3):
                nursery.start_soon(acknowledge, offset)
                await trio.testing.wait_all_tasks_blocked()
            partition.end(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            await trio.testing.wait_all_tasks_blocked()
            assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2, "the first is being written"
            coordinator.gate.set()
        assert len(codes) == 2

    run(scenario)


LETTERS = Limits(lock_ms=30_000, writes_letters=True)


def test_letters_are_due_once_the_archiving_state_is_durable_and_until_the_records_are_archived() -> None:
    async def scenario() -> None:
        coordinator = Coordinator()
        partition = await led(coordinator, limits=LETTERS)
        partition.acquire("a", 0, BATCH, 10)
        coordinator.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partition.acknowledge, "a", [Acknowledgement(0, 9, [REJECT])])
            await trio.testing.wait_all_tasks_blocked()
            assert partition.given_up(100) == []
            coordinator.gate.set()
        assert not partition.is_idle
        assert partition.given_up(4) == [GivenUp(0, 3, 1, REJECTED)]
        await partition.archive(partition.given_up(4))
        assert partition.given_up(100) == [GivenUp(4, 9, 1, REJECTED)]
        await partition.archive(partition.given_up(100))
        assert (partition.given_up(100), partition.is_idle) == ([], True)
        assert [batches for *_, batches in coordinator.writes] == [
            [StateBatch(0, 9, ARCHIVING, 1)],
            [StateBatch(0, 3, ARCHIVED, 1)],
            [StateBatch(4, 9, ARCHIVED, 1)],
        ]
        assert coordinator.writes[-1][2:4] == (10, 0)

    run(scenario)


def test_records_that_could_not_be_archived_are_archived_by_a_later_call() -> None:
    async def scenario() -> None:
        coordinator = Coordinator(ReadState(7, 0, [StateBatch(0, 1, ARCHIVING, 5)]))
        partition = await led(coordinator, limits=LETTERS)
        due = partition.given_up(100)
        assert due == [GivenUp(0, 1, 5, DELIVERED_TOO_OFTEN)]
        coordinator.refusals = [ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        with pytest.raises(ApiError):
            await partition.archive(due)
        assert partition.given_up(100) == due
        assert partition.window.start_offset == 0
        await partition.archive(due)
        assert (partition.given_up(100), partition.window.start_offset) == ([], 2)

    run(scenario)


def test_the_next_leader_writes_letters_and_a_deleted_state_still_has_its_letters_written() -> None:
    async def scenario() -> None:
        for code, goes_on in ((ErrorCode.FENCED_LEADER_EPOCH, False), (ErrorCode.FENCED_STATE_EPOCH, True)):
            coordinator = Coordinator(ReadState(7, 0, [StateBatch(0, 1, ARCHIVING, 1)]))
            partition = await led(coordinator, limits=LETTERS)
            partition.end(ApiError(code))
            due = partition.given_up(100)
            assert bool(due) == goes_on
            await partition.archive(due)
            assert (partition.given_up(100), coordinator.writes) == ([], [])

    run(scenario)
