"""Two-phase commit (KIP-939): transactions without a timeout, and transactions that outlive their producer."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.shard import Moment
from kraft.coordinator.transaction.config import TransactionConfig
from kraft.coordinator.transaction.ending import End, abort_timed_out, complete, end_transaction
from kraft.coordinator.transaction.init_producer import Claim, init_producer, keep_transaction
from kraft.coordinator.transaction.partitions import add_partitions, missing_partitions
from kraft.coordinator.transaction.shard import FreshId, TransactionShard, TransactionShardState
from kraft.coordinator.transaction.transaction import EPOCH_MAX, NO_TIMEOUT_MS, State, Transaction
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.service import run
from tests.unit.coordinator.transaction.coordinating import PLACE, Markers, coordinating

ID, WRITER, FRESH = "orders", 42, 73
OTHER = TopicPartition("t", 1)
ENABLED = TransactionConfig(two_phase_commit=True)


class Coordinator:
    """One transactional id, and the markers that its decisions ask for."""

    def __init__(self, epoch: int, timeout_ms: int = NO_TIMEOUT_MS, level: int = 2) -> None:
        self.shard = TransactionShard(lambda: level)
        found = Transaction(
            WRITER, epoch, timeout_ms, State.ONGOING, frozenset([PLACE]), 1, 1, previous_producer_id=WRITER
        )
        self.state = TransactionShardState(TransactionShardState().transactions.set(ID, found))
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[Any] = []
        self.fresh = FRESH

    @property
    def found(self) -> Transaction:
        return self.state.transactions[ID]

    def decide(self, decision: Any, *arguments: Any, wall_ms: int = 10) -> Any:
        draft = self.shard.draft(self.state, 0, Moment(0, wall_ms))
        answer = decision(draft, *arguments)
        self.state = draft.finish()
        self.log += draft.records
        self.markers += draft.effects
        return answer

    def keep(self, timeout_ms: int = NO_TIMEOUT_MS, claim: Claim | None = None) -> tuple[int, int]:
        kept: Transaction = self.decide(keep_transaction, ID, timeout_ms, claim, FreshId(self.fresh))
        self.fresh += kept.next_producer_id == self.fresh
        return kept.owner

    def end(self, producer: tuple[int, int], *, committed: bool = True, version: int = 2) -> Any:
        return self.decide(end_transaction, End(ID, *producer, committed, version), FreshId(self.fresh))

    def complete(self) -> None:
        self.decide(complete, self.markers[-1])

    def reload(self) -> None:
        """Have another coordinator read the log."""
        for key, value in self.log:
            self.state = self.shard.replay(self.state, key, value)


def refused(decision: Any, *arguments: Any) -> int:
    with pytest.raises(ApiError) as raised:
        decision(*arguments)
    return raised.value.code


def test_a_two_phase_transaction_never_times_out() -> None:
    coordinator = Coordinator(5)
    assert coordinator.decide(abort_timed_out, ID, FreshId(FRESH), wall_ms=2**40) is False
    limited = Coordinator(5, timeout_ms=1_000)
    assert limited.decide(abort_timed_out, ID, FreshId(FRESH), wall_ms=2**40) is True


def test_keeping_a_transaction_fences_its_producer_and_leaves_it_open() -> None:
    coordinator = Coordinator(5)
    assert coordinator.keep() == (WRITER, 6)
    found = coordinator.found
    assert (found.state, found.producer_id, found.producer_epoch) == (State.ONGOING, WRITER, 5)
    assert coordinator.markers == []
    for committed in (True, False):
        assert refused(lambda: coordinator.end((WRITER, 5), committed=committed)) == ErrorCode.PRODUCER_FENCED  # noqa: B023
    add = (coordinator.decide, add_partitions, ID, WRITER, 5, [PLACE], 2)
    assert refused(*add) == ErrorCode.PRODUCER_FENCED
    verify = (missing_partitions, coordinator.state, ID, WRITER, 5, [PLACE])
    assert refused(*verify) == ErrorCode.PRODUCER_FENCED, "a leader that asks hears it too"


def test_a_kept_transaction_accepts_no_partitions_from_the_producer_that_kept_it() -> None:
    coordinator = Coordinator(5)
    owner = coordinator.keep()
    for place in (PLACE, OTHER):
        assert refused(coordinator.decide, add_partitions, ID, *owner, [place], 2) == ErrorCode.INVALID_TXN_STATE
    assert refused(coordinator.decide, add_partitions, ID, 99, 0, [PLACE], 2) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_the_producer_that_kept_a_transaction_ends_it(committed: bool, version: int) -> None:
    coordinator = Coordinator(5)
    coordinator.keep()
    owner = coordinator.keep()
    assert owner == (WRITER, 7)
    coordinator.reload()
    answer = coordinator.end(owner, committed=committed, version=version)
    assert answer == ((WRITER, 8) if version == 2 else (-1, -1))
    (marker,) = coordinator.markers
    assert (marker.producer_id, marker.committed, marker.partitions) == (WRITER, committed, {PLACE})
    assert marker.producer_epoch > 6, "the marker fences every producer that kept it before"
    coordinator.reload()
    coordinator.complete()
    coordinator.reload()
    assert coordinator.found.owner == (WRITER, marker.producer_epoch)
    if version == 2:
        assert coordinator.end(owner, committed=committed) == answer, "a retry hears the same"
    coordinator.decide(add_partitions, ID, *coordinator.found.owner, [OTHER], version)
    assert coordinator.found.partitions == {OTHER}


def test_exhausted_epochs_give_the_kept_transaction_an_owner_with_a_new_producer_id() -> None:
    """The example of the KIP: the markers have the producer id that wrote the records."""
    coordinator = Coordinator(EPOCH_MAX - 1)
    assert coordinator.keep() == (FRESH, 0)
    owner = coordinator.keep()
    assert owner == (FRESH, 1)
    coordinator.reload()
    assert refused(coordinator.end, (WRITER, EPOCH_MAX - 1)) == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(owner) == (FRESH, 2)
    coordinator.reload()
    (marker,) = coordinator.markers
    assert (marker.producer_id, marker.producer_epoch) == (WRITER, EPOCH_MAX)
    coordinator.complete()
    coordinator.reload()
    assert coordinator.found.owner == (FRESH, 2)
    assert coordinator.end(owner) == (FRESH, 2), "a retry hears the same"


@pytest.mark.parametrize("level", [1, 2])
def test_an_abort_gives_the_owner_with_a_new_producer_id_a_higher_epoch(level: int) -> None:
    coordinator = Coordinator(EPOCH_MAX - 1)
    owner = coordinator.keep()
    coordinator.shard = TransactionShard(lambda: level)
    assert coordinator.decide(init_producer, ID, 1_000, None, FreshId(999)) is None
    assert not coordinator.markers[-1].committed
    coordinator.reload()
    coordinator.complete()
    assert coordinator.found.owner == (owner[0], owner[1] + 1)


def test_an_owner_whose_epochs_are_exhausted_gets_a_third_producer_id() -> None:
    coordinator = Coordinator(EPOCH_MAX - 1)
    coordinator.keep()
    kept = coordinator.found._replace(next_producer_epoch=EPOCH_MAX - 2)
    coordinator.state = TransactionShardState(coordinator.state.transactions.set(ID, kept))
    owner = coordinator.keep()
    assert owner == (FRESH, EPOCH_MAX - 1)
    assert coordinator.end(owner) == (FRESH + 1, 0)
    coordinator.complete()
    coordinator.reload()
    assert coordinator.end(owner) == (FRESH + 1, 0), "a retry hears the same"


def test_a_producer_that_keeps_nothing_aborts_a_kept_transaction() -> None:
    coordinator = Coordinator(5)
    owner = coordinator.keep()
    assert coordinator.decide(init_producer, ID, 1_000, None, FreshId(FRESH)) is None
    (marker,) = coordinator.markers
    assert (marker.committed, marker.producer_epoch) == (False, owner[1] + 1)


def test_keeping_never_shortens_the_timeout_of_an_open_transaction() -> None:
    coordinator = Coordinator(5)
    coordinator.keep(timeout_ms=1_000)
    assert coordinator.found.timeout_ms == NO_TIMEOUT_MS
    limited = Coordinator(5, timeout_ms=1_000)
    limited.keep()
    assert limited.found.timeout_ms == NO_TIMEOUT_MS


def test_only_the_newest_producer_keeps_a_transaction_by_its_own_epoch() -> None:
    coordinator = Coordinator(5)
    assert coordinator.keep(claim=Claim(WRITER, 5)) == (WRITER, 6)
    assert refused(coordinator.keep, NO_TIMEOUT_MS, Claim(WRITER, 5)) == ErrorCode.PRODUCER_FENCED
    assert coordinator.keep(claim=Claim(WRITER, 6)) == (WRITER, 7)


def test_keeping_a_transaction_needs_transaction_version_2() -> None:
    assert refused(Coordinator(5, level=1).keep) == ErrorCode.UNSUPPORTED_VERSION


def test_the_coordinator_answers_with_both_producers_of_a_kept_transaction() -> None:
    async def scenario() -> None:
        async with coordinating(MemoryLog(), Markers(), 1, config=ENABLED) as coordinator:
            made = await coordinator.init_two_phase(ID, 0, None, has_timeout=False, keep=True)
            assert made.ongoing == (-1, -1), "no transaction is open"
            await coordinator.add_partitions(ID, *made.producer, [PLACE], 2)
            assert coordinator.describe(ID).transaction_timeout_ms == NO_TIMEOUT_MS
            again = await coordinator.init_two_phase(ID, 0, None, has_timeout=False, keep=True)
            assert again.ongoing == made.producer
            assert again.producer == (made.producer[0], made.producer[1] + 1)
            assert coordinator.describe(ID).producer_epoch == made.producer[1], "the epoch of its records"
            await coordinator.end_transaction(End(ID, *again.producer, committed=True, version=2))

    run(scenario)


def test_two_phase_commit_is_refused_unless_the_broker_enables_it() -> None:
    async def scenario() -> None:
        async with coordinating(MemoryLog(), Markers(), 1) as coordinator:
            for has_timeout, keep, code in (
                (False, False, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
                (True, True, ErrorCode.UNSUPPORTED_VERSION),
            ):
                with pytest.raises(ApiError) as raised:
                    await coordinator.init_two_phase(ID, 1_000, None, has_timeout=has_timeout, keep=keep)
                assert raised.value.code == code

    run(scenario)


def test_a_producer_that_keeps_without_two_phase_commit_has_a_limited_timeout() -> None:
    async def scenario() -> None:
        async with coordinating(MemoryLog(), Markers(), 1, config=ENABLED) as coordinator:
            with pytest.raises(ApiError) as raised:
                await coordinator.init_two_phase(ID, NO_TIMEOUT_MS, None, has_timeout=True, keep=True)
            assert raised.value.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    run(scenario)
