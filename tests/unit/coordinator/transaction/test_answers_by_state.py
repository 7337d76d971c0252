"""What each request hears in each state of its transactional id, as Apache Kafka 4.3.1 answers it
(`TransactionCoordinator`): settled states first, then those in transition."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.shard import Moment
from kraft.coordinator.transaction.ending import End, abort_timed_out, complete, end_transaction
from kraft.coordinator.transaction.init_producer import Claim, init_producer
from kraft.coordinator.transaction.inspection import expiring
from kraft.coordinator.transaction.partitions import add_partitions
from kraft.coordinator.transaction.shard import FreshId, TransactionDraft, TransactionShard, TransactionShardState
from kraft.coordinator.transaction.transaction import (
    EPOCH_MAX,
    PREPARED,
    Ending,
    ProducerIdNeeded,
    State,
    Transaction,
)
from kraft.protocol.error_codes import ErrorCode

ID, PRODUCER, EPOCH, FRESH = "orders", 7, 5, 101
PLACE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
WALL_MS = 1_000_000

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
WRONG_STATE = ErrorCode.INVALID_TXN_STATE

REQUESTS = {
    "add": lambda draft, epoch: add_partitions(draft, ID, PRODUCER, epoch, [PLACE], 2),
    "commit": lambda draft, epoch: end_transaction(draft, End(ID, PRODUCER, epoch, True, 2), FreshId(FRESH)),
    "abort": lambda draft, epoch: end_transaction(draft, End(ID, PRODUCER, epoch, False, 2), FreshId(FRESH)),
    "commit0": lambda draft, epoch: end_transaction(draft, End(ID, PRODUCER, epoch, True, 0), FreshId(FRESH)),
    "abort0": lambda draft, epoch: end_transaction(draft, End(ID, PRODUCER, epoch, False, 0), FreshId(FRESH)),
    "init": lambda draft, epoch: init_producer(draft, ID, 1_000, Claim(PRODUCER, epoch), FreshId(FRESH)),
}


def transaction(state: State, epoch: int = EPOCH) -> Transaction:
    is_open = state is State.ONGOING or state in PREPARED
    return Transaction(
        PRODUCER,
        epoch,
        1_000,
        state,
        frozenset([PLACE]) if is_open else frozenset(),
        started_ms=1,
        updated_ms=1,
        previous_producer_id=PRODUCER,
        last_producer_epoch=epoch - 1,
    )


def state_of(found: Transaction | None) -> TransactionShardState:
    state = TransactionShardState()
    return state if found is None else TransactionShardState(state.transactions.set(ID, found))


def draft_of(newest: Transaction | None, committed: Transaction | None, level: int = 2) -> TransactionDraft:
    shard = TransactionShard(lambda: level)
    before = state_of(committed)
    after = before if newest is committed else state_of(newest)
    return shard.draft(after, 1, Moment(0, WALL_MS), None, before)


def answer_to(request: str, epoch: int, newest: Transaction | None, committed: Transaction | None) -> int:
    try:
        REQUESTS[request](draft_of(newest, committed), epoch)
    except ApiError as refused:
        return refused.code
    return ErrorCode.NONE


SETTLED = {
    # request: (Empty, Ongoing, CompleteCommit, CompleteAbort) of the epoch on record, then of the one before it.
    "add": ((0, 0, 0, 0), (FENCED, FENCED, FENCED, FENCED)),
    "commit": ((WRONG_STATE, 0, WRONG_STATE, WRONG_STATE), (FENCED, FENCED, 0, WRONG_STATE)),
    "abort": ((0, 0, 0, 0), (FENCED, FENCED, WRONG_STATE, 0)),
    "commit0": ((WRONG_STATE, 0, 0, WRONG_STATE), (FENCED, FENCED, FENCED, FENCED)),
    "abort0": ((WRONG_STATE, 0, WRONG_STATE, 0), (FENCED, FENCED, FENCED, FENCED)),
    "init": ((0, 0, 0, 0), (0, 0, 0, 0)),
}
STATES = (State.EMPTY, State.ONGOING, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


@pytest.mark.parametrize("request_name", SETTLED)
def test_a_transaction_without_work_in_progress_is_answered_by_its_state(request_name: str) -> None:
    for epoch, expected in zip((EPOCH, EPOCH - 1), SETTLED[request_name], strict=True):
        for state, code in zip(STATES, expected, strict=True):
            found = transaction(state)
            assert answer_to(request_name, epoch, found, found) == code, (state, epoch)


@pytest.mark.parametrize("state", sorted(PREPARED))
@pytest.mark.parametrize("request_name", REQUESTS)
def test_requests_get_concurrent_transactions_while_markers_are_written(request_name: str, state: State) -> None:
    """Its new epoch, the one that it asked with, and any other: Kafka looks at the transition first."""
    found = transaction(state)
    for epoch in (EPOCH, EPOCH - 1, EPOCH - 3):
        code = answer_to(request_name, epoch, found, found)
        if request_name in ("commit0", "abort0") and epoch != EPOCH:
            assert code == FENCED, "before transaction.version 2 the epoch is looked at first"
        else:
            assert code == CONCURRENT, epoch


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (State.EMPTY, State.EMPTY),
        (State.COMPLETE_COMMIT, State.EMPTY),
        (State.ONGOING, State.PREPARE_COMMIT),
        (State.ONGOING, State.PREPARE_ABORT),
        (State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
        (State.PREPARE_ABORT, State.COMPLETE_ABORT),
    ],
)
def test_requests_get_concurrent_transactions_until_a_record_is_committed(
    request_name: str, before: State, after: State
) -> None:
    newest, committed = transaction(after, EPOCH + 1), transaction(before)
    assert answer_to(request_name, EPOCH, newest, committed) == CONCURRENT
    if request_name not in ("commit0", "abort0"):
        assert answer_to(request_name, EPOCH + 1, newest, committed) == CONCURRENT


def test_a_transactional_id_being_created_or_expired_is_listed_in_transition() -> None:
    found = transaction(State.EMPTY)
    for newest, committed in ((found, None), (None, found)):
        assert answer_to("init", EPOCH, newest, committed) == CONCURRENT
        assert answer_to("add", EPOCH, newest, committed) == CONCURRENT
    assert answer_to("commit", EPOCH, found, None) == MAPPING, "nothing is known of it"
    assert answer_to("commit", EPOCH, None, found) == CONCURRENT


def test_partitions_can_be_added_to_a_transaction_whose_first_record_is_not_committed() -> None:
    draft = draft_of(transaction(State.ONGOING), transaction(State.EMPTY))
    add_partitions(draft, ID, PRODUCER, EPOCH, [OTHER], 2)
    joined = draft.transaction(ID)
    assert joined is not None
    assert joined.partitions == {PLACE, OTHER}
    assert answer_to("commit", EPOCH, transaction(State.ONGOING), transaction(State.EMPTY)) == CONCURRENT
    assert answer_to("add", EPOCH - 1, transaction(State.ONGOING), transaction(State.EMPTY)) == CONCURRENT


def test_a_new_producer_id_after_epoch_exhaustion_gets_concurrent_transactions_until_markers_are_written() -> None:
    found = transaction(State.PREPARE_COMMIT, EPOCH_MAX)._replace(next_producer_id=FRESH)
    for ask in (
        lambda draft: add_partitions(draft, ID, FRESH, 0, [PLACE], 2),
        lambda draft: end_transaction(draft, End(ID, FRESH, 0, True, 2), FreshId()),
    ):
        with pytest.raises(ApiError) as refused:
            ask(draft_of(found, found))
        assert refused.value.code == CONCURRENT


def test_a_transactional_id_in_transition_neither_times_out_nor_expires() -> None:
    late, before = transaction(State.ONGOING), transaction(State.EMPTY)
    assert not abort_timed_out(draft_of(late, before), ID, FreshId(FRESH))
    assert abort_timed_out(draft_of(late, late), ID, FreshId(FRESH))
    renewed = transaction(State.EMPTY, EPOCH + 1)
    for newest, committed, forgotten in ((renewed, before, False), (before, before, True)):
        draft = draft_of(newest, committed)
        (operation,) = expiring(1)(state_of(newest))
        operation(draft)
        assert (draft.transaction(ID) is None) == forgotten


def test_a_transactional_id_expires_by_its_last_use() -> None:
    for updated_ms, forgotten in ((WALL_MS - 1_000, True), (WALL_MS - 999, False)):
        found = transaction(State.EMPTY)._replace(started_ms=-1, updated_ms=updated_ms)
        draft = draft_of(found, found)
        (operation,) = expiring(1_000)(state_of(found))
        operation(draft)
        assert (draft.transaction(ID) is None) == forgotten


def test_a_transaction_keeps_its_start_time() -> None:
    """More partitions, or its end, do not give it more time."""
    found = transaction(State.ONGOING)._replace(started_ms=WALL_MS - 500)
    for ask in (
        lambda draft: add_partitions(draft, ID, PRODUCER, EPOCH, [OTHER], 2),
        lambda draft: end_transaction(draft, End(ID, PRODUCER, EPOCH, True, 2), FreshId(FRESH)),
        lambda draft: end_transaction(draft, End(ID, PRODUCER, EPOCH, True, 0), FreshId(FRESH)),
    ):
        draft = draft_of(found, found)
        ask(draft)
        after = draft.transaction(ID)
        assert after is not None
        assert (after.started_ms, after.updated_ms) == (WALL_MS - 500, WALL_MS)


@pytest.mark.parametrize("request_name", ["add", "commit", "abort", "commit0", "abort0"])
def test_the_last_producer_epoch_is_refused_from_clients(request_name: str) -> None:
    """It is for fencing alone: whoever says it was never given it."""
    for state in STATES:
        found = transaction(state, EPOCH_MAX)
        assert answer_to(request_name, EPOCH_MAX, found, found) == FENCED, state


@pytest.mark.parametrize("level", [0, 2])
def test_a_logged_transaction_with_the_last_producer_epoch_is_still_aborted(level: int) -> None:
    """Coordinators before this rule accepted it. Its marker has no epoch left to rise to, so it does not claim to."""
    found = transaction(State.ONGOING, EPOCH_MAX)
    draft = draft_of(found, found, level)
    try:
        abort_timed_out(draft, ID, FreshId())
    except ProducerIdNeeded:
        abort_timed_out(draft, ID, FreshId(FRESH))
    (ending,) = draft.effects
    assert ending == Ending(ID, PRODUCER, EPOCH_MAX, False, 0, frozenset([PLACE]), 1)
    aborted = draft.transaction(ID)
    draft = draft_of(aborted, aborted, level)
    complete(draft, ending)
    after = draft.transaction(ID)
    assert after is not None
    assert after.state is State.COMPLETE_ABORT
    renewed = init_producer(draft_of(after, after, level), ID, 1_000, None, FreshId(FRESH + 1))
    assert renewed is not None
    assert renewed.producer_id != PRODUCER, "the id goes on with a new producer id"
    assert renewed.producer_epoch in (0, 1)
