"""Laws of the transaction coordinator's decisions, over random lives of one transactional id: producers that come,
work, ask again and are fenced, and a coordinator that moves at any moment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.shard import Moment
from kraft.coordinator.transaction.ending import End, abort_timed_out, complete, end_transaction
from kraft.coordinator.transaction.init_producer import Claim, init_producer, keep_transaction
from kraft.coordinator.transaction.partitions import add_partitions
from kraft.coordinator.transaction.shard import FreshId, TransactionShard, TransactionShardState
from kraft.coordinator.transaction.transaction import (
    EPOCH_MAX,
    PREPARED,
    TRANSITIONS,
    Ending,
    ProducerIdNeeded,
    State,
    Transaction,
)
from kraft.protocol.error_codes import ErrorCode

ID = "orders"
PLACES = [TopicPartition("t", index) for index in range(3)]


class Lives(RuleBasedStateMachine):
    """`log` is what is in the log; `markers` are the effects whose markers nobody has completed."""

    def __init__(self) -> None:
        super().__init__()
        self.level = 2
        self.shard = TransactionShard(lambda: self.level)
        self.state: TransactionShardState = self.shard.empty()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[Ending] = []
        self.wall_ms = 1_000
        self.next_id = 100
        self.producer: tuple[int, int] | None = None
        """The newest producer as it knows itself."""
        self.fenced: set[tuple[int, int]] = set()
        self.replaced: set[tuple[int, int]] = set()
        """Of those, the ones whose id another has taken over."""
        self.completed: list[Ending] = []
        self.ended: set[tuple[int, int]] = set()
        """Ids and epochs of the markers of transaction.version 2."""

    @property
    def found(self) -> Transaction | None:
        return self.state.transactions.get(ID)

    def decide(self, decision: Any, *arguments: Any) -> Any:
        """Run a decision, with a new producer id where it takes one; records go into the log."""
        fresh = FreshId()
        while True:
            draft = self.shard.draft(self.state, 0, Moment(0, self.wall_ms))
            try:
                answer = decision(draft, *arguments, fresh) if decision in WITH_FRESH else decision(draft, *arguments)
            except ProducerIdNeeded:
                self.next_id += 1
                fresh = FreshId(self.next_id)
                continue
            self.state = draft.finish()
            self.log += draft.records
            for effect in draft.effects:
                if effect.transaction_version == 2:
                    key = effect.producer_id, effect.producer_epoch
                    assert key not in self.ended, "one transaction for one epoch"
                    self.ended.add(key)
                self.markers.append(effect)
            return answer

    def expect(self, refused: ApiError, *codes: int) -> None:
        assert refused.code in codes, refused

    def expect_no_fencing(self, refused: ApiError) -> None:
        """The newest producer may hear that it comes too early or asks for what cannot be, never that another is."""
        if self.producer not in self.fenced:
            codes = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert refused.code not in codes, (refused, self.producer, self.found)

    @rule(level=st.sampled_from([0, 1, 2]))
    def change_level(self, level: int) -> None:
        self.level = level

    @rule(milliseconds=st.integers(1, 5_000))
    def pass_time(self, milliseconds: int) -> None:
        self.wall_ms += milliseconds

    @rule()
    def new_producer(self) -> None:
        before = self.producer
        try:
            made = self.decide(init_producer, ID, 3_000, None)
        except ApiError as refused:
            self.expect(refused, ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        if before is not None:
            self.fenced.add(before)
        if made is None:
            return
        if before is not None:
            self.replaced.add(before)
        self.producer = made.producer_id, made.producer_epoch
        assert self.producer not in self.fenced

    @precondition(lambda self: self.producer is not None)
    @rule(again=st.booleans())
    def same_producer(self, again: bool) -> None:
        """KIP-360; its answer may be lost, so that it asks again."""
        assert self.producer is not None
        for _ in range(1 + again):
            try:
                made = self.decide(init_producer, ID, 3_000, Claim(*self.producer))
            except ApiError as refused:
                self.expect(refused, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED)
                return
            if made is None:
                self.fenced.add(self.producer)
                return
        self.fenced.add(self.producer)
        self.producer = made.producer_id, made.producer_epoch

    @precondition(lambda self: self.producer is not None)
    @rule(place=st.sampled_from(PLACES), version=st.sampled_from([0, 2]))
    def add(self, place: TopicPartition, version: int) -> None:
        assert self.producer is not None
        try:
            self.decide(add_partitions, ID, *self.producer, [place], version)
        except ApiError as refused:
            self.expect_no_fencing(refused)
            return
        assert self.found is not None
        assert place in self.found.partitions
        assert self.found.state is State.ONGOING

    @precondition(lambda self: self.producer is not None)
    @rule(committed=st.booleans(), version=st.sampled_from([0, 2]), lost=st.booleans())
    def end(self, committed: bool, version: int, lost: bool) -> None:
        """With `lost` the answer does not arrive, and the producer asks the same once more."""
        assert self.producer is not None
        asked = End(ID, *self.producer, committed, version)
        before = self.found
        try:
            answer = self.decide(end_transaction, asked)
        except ApiError as refused:
            self.expect_no_fencing(refused)
            return
        if before is not None and before.state is State.ONGOING:
            assert self.found is not None
            assert self.found.partitions == before.partitions, "all partitions get the marker"
        if lost:
            self.complete_all()
            repeated = self.decide(end_transaction, asked)
            assert repeated == answer, "asked again, it hears the same"
            if version == 2 and self.producer not in self.fenced:
                made = self.decide(init_producer, ID, 3_000, Claim(*self.producer))
                assert (made.producer_id, made.producer_epoch) == answer, "or it claims the epoch that it knows"
        if version == 2:
            self.fenced.add(self.producer)
            self.producer = answer

    @rule()
    def time_out(self) -> None:
        before = self.found
        if self.decide(abort_timed_out, ID):
            assert before is not None
            assert before.started_ms + before.timeout_ms < self.wall_ms
            assert self.found is not None
            assert self.found.producer_epoch == before.owner[1] + 1, "the producer that had it open is fenced"
            if self.producer is not None and self.producer[0] == before.producer_id:
                self.fenced.add(self.producer)

    @precondition(lambda self: self.producer is not None)
    @rule(claims=st.booleans())
    def keep(self, claims: bool) -> None:
        """KIP-939: a new producer, or the same one after a failure, keeps the open transaction in order to end it."""
        assert self.producer is not None
        before, former = self.found, self.producer
        assert before is not None
        try:
            kept = self.decide(keep_transaction, ID, 3_000, Claim(*former) if claims else None)
        except ApiError as refused:
            self.expect(
                refused,
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.PRODUCER_FENCED,
                ErrorCode.UNSUPPORTED_VERSION,
            )
            assert self.found == before
            return
        if kept is None:
            assert self.found == before
            assert before.state is not State.ONGOING
            return
        assert kept == self.found
        assert (kept.producer_id, kept.producer_epoch) == (before.producer_id, before.producer_epoch), "it is the same"
        assert (kept.partitions, kept.started_ms) == (before.partitions, before.started_ms)
        assert kept.owner > before.owner
        self.fenced.add(former)
        self.replaced.add(former)
        self.producer = kept.owner
        assert self.producer not in self.fenced
        with pytest.raises(ApiError):
            self.decide(add_partitions, ID, *self.producer, [PLACES[0]], 2)
        assert self.found == kept, "a kept transaction gets no further records"

    @precondition(lambda self: self.fenced)
    @rule(data=st.data(), committed=st.booleans(), version=st.sampled_from([0, 2]))
    def zombie(self, data: st.DataObject, committed: bool, version: int) -> None:
        """A producer that was fenced changes nothing."""
        who = data.draw(st.sampled_from(sorted(self.fenced)))
        before = self.found
        try:
            self.decide(end_transaction, End(ID, *who, committed, version))
        except ApiError:
            pass
        with pytest.raises(ApiError):
            self.decide(add_partitions, ID, *who, [PLACES[0]], version)
        assert self.found == before

    @rule()
    def complete_all(self) -> None:
        while self.markers:
            self.completed.append(self.markers.pop(0))
            self.decide(complete, self.completed[-1])

    @precondition(lambda self: self.replaced)
    @rule(data=st.data())
    def zombie_claims(self, data: st.DataObject) -> None:
        """A producer whose id another has taken over does not get it back. As in Kafka, it aborts what is open."""
        before, claim = self.found, Claim(*data.draw(st.sampled_from(sorted(self.replaced))))
        try:
            assert self.decide(init_producer, ID, 3_000, claim) is None
        except ApiError as refused:
            self.expect(refused, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED)
            assert self.found == before
        else:
            assert self.producer is not None
            self.fenced.add(self.producer)

    @precondition(lambda self: self.completed)
    @rule(data=st.data())
    def complete_again(self, data: st.DataObject) -> None:
        """Who did not learn that a transaction is complete says so again, and another may be decided by then."""
        before, late = self.found, data.draw(st.sampled_from(self.completed))
        if before is None or (late.producer_epoch, late.started_ms) != (before.producer_epoch, before.started_ms):
            self.decide(complete, late)
            assert self.found == before

    @rule(known=st.integers(0, 50))
    def move(self, known: int) -> None:
        """Another coordinator reads the log: it has the same state, and the markers to write."""
        state = self.shard.empty()
        for key, value in self.log:
            state = self.shard.replay(state, key, value)
        forgotten = {name: each._replace(last_producer_epoch=-1) for name, each in self.state.transactions.items()}
        if self.level >= 1 and all(record[1] is None or record[1][:2] == b"\0\1" for record in self.log):
            assert dict(state.transactions.items()) == forgotten
        self.state = state
        draft = self.shard.draft(state, 0, Moment(0, self.wall_ms))
        self.shard.loaded(draft)
        assert not draft.records
        self.markers = list(draft.effects)

    @invariant()
    def holds(self) -> None:
        found = self.found
        if found is None:
            return
        assert 0 <= found.producer_epoch <= EPOCH_MAX
        assert (found.state in PREPARED) == bool(
            [each for each in self.markers if each.producer_epoch == found.producer_epoch]
        ), "what is decided is told, and nothing else"
        assert found.state is State.ONGOING or found.state in PREPARED or not found.partitions


WITH_FRESH = (init_producer, keep_transaction, end_transaction, abort_timed_out)

TestLives = Lives.TestCase


def test_every_transaction_state_has_a_successor() -> None:
    assert set(TRANSITIONS) == set(State)
    reached = {after for states in TRANSITIONS.values() for after in states}
    assert reached == set(State)


@pytest.mark.parametrize("version", [0, 2])
def test_markers_of_the_previous_transaction_do_not_complete_the_current_one(version: int) -> None:
    """Before transaction.version 2 both have the same epoch."""
    lives = Lives()
    lives.level = version
    made = lives.decide(init_producer, ID, 3_000, None)
    producer = made.producer_id, made.producer_epoch
    for _ in range(2):
        lives.complete_all()
        lives.wall_ms += 1
        lives.decide(add_partitions, ID, *producer, [PLACES[0]], version)
        answer = lives.decide(end_transaction, End(ID, *producer, True, version))
        producer = answer if version == 2 else producer
    (late,), (open_,) = lives.completed, lives.markers
    assert late != open_, "the coordinator tells by it what it has under way"
    lives.decide(complete, late)
    assert lives.found is not None
    assert lives.found.state is State.PREPARE_COMMIT
    lives.complete_all()
    assert lives.found.state is State.COMPLETE_COMMIT


def test_a_replaced_producer_does_not_get_its_producer_id_back() -> None:
    lives = Lives()
    replaced, newest = (lives.decide(init_producer, ID, 3_000, None) for _ in range(2))
    with pytest.raises(ApiError) as refused:
        lives.decide(init_producer, ID, 3_000, Claim(replaced.producer_id, replaced.producer_epoch))
    assert refused.value.code == ErrorCode.PRODUCER_FENCED
    assert lives.found == newest


@pytest.mark.parametrize("committed", [True, False])
def test_a_producer_that_retries_an_unanswered_end_is_not_fenced(committed: bool) -> None:
    """EndTxn raised its epoch (KIP-890) and the answer was lost. It claims the epoch that it knows (KIP-360)."""
    lives = Lives()
    made = lives.decide(init_producer, ID, 3_000, None)
    producer = made.producer_id, made.producer_epoch
    lives.decide(add_partitions, ID, *producer, [PLACES[0]], 2)
    lost = lives.decide(end_transaction, End(ID, *producer, committed, 2))
    lives.complete_all()
    again = lives.decide(init_producer, ID, 3_000, Claim(*producer))
    assert (again.producer_id, again.producer_epoch) == lost


@pytest.mark.parametrize("version", [0, 2])
def test_an_exhausted_epoch_assigns_a_new_producer_id(version: int) -> None:
    lives = Lives()
    lives.level = version
    lives.state = TransactionShardState(
        lives.state.transactions.set(ID, Transaction(7, EPOCH_MAX - 1, 3_000, updated_ms=1))
    )
    lives.decide(add_partitions, ID, 7, EPOCH_MAX - 1, [PLACES[0]], version)
    answer = lives.decide(end_transaction, End(ID, 7, EPOCH_MAX - 1, True, version))
    marker = lives.markers[0]
    if version == 2:
        assert (answer, marker.producer_id, marker.producer_epoch) == ((101, 0), 7, EPOCH_MAX)
    else:
        assert (answer, marker.producer_id, marker.producer_epoch) == ((-1, -1), 7, EPOCH_MAX - 1)
    lives.complete_all()
    if version == 2:
        assert lives.decide(end_transaction, End(ID, 7, EPOCH_MAX - 1, True, 2)) == (101, 0), "asked again"
    else:
        made = lives.decide(init_producer, ID, 3_000, None)
        assert (made.producer_id, made.producer_epoch) == (101, 0)
