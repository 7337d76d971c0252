"""The transactions of one partition of `__transaction_state`, hosted by the coordinator runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from immutables import Map

from kraft.common.errors import ApiError
from kraft.coordinator.shard import LogRecord, Marker, Moment, Producer, TimerKey, Token
from kraft.coordinator.transaction.records import decode, key_of, value_of
from kraft.coordinator.transaction.transaction import (
    EPOCH_MAX,
    OF_A_PRODUCER,
    PREPARED,
    TRANSITIONS,
    Ending,
    ProducerIdNeeded,
    Transaction,
    ending_of,
)
from kraft.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class TransactionShardState:
    """Transactions by transactional id. The map is iterated only in key order: `sorted(...)`."""

    transactions: Map[str, Transaction] = field(default_factory=Map)


class TransactionDraft:
    """The draft of one operation. `level` is the cluster's transaction.version. `committed` is the state as of the high
    watermark."""

    def __init__(
        self, state: TransactionShardState, committed: TransactionShardState, level: int, moment: Moment
    ) -> None:
        self.level = level
        self.wall_ms = moment.wall_ms
        self.records: list[LogRecord] = []
        self.effects: list[Ending] = []
        self.completions: tuple[()] = ()
        self.timers: tuple[()] = ()
        self.notes: list[dict[str, Any]] = []
        self._transactions = state.transactions
        self._committed = committed.transactions

    def finish(self) -> TransactionShardState:
        return TransactionShardState(self._transactions)

    def transaction(self, transactional_id: str) -> Transaction | None:
        """The newest state, which may still be lost."""
        return self._transactions.get(transactional_id)

    def committed(self, transactional_id: str) -> Transaction | None:
        return self._committed.get(transactional_id)

    def is_in_transition(self, transactional_id: str) -> bool:
        """Whether the id is in transition: its newest record is not committed, or its markers are not written. Kafka's
        `pendingTransitionInProgress`."""
        newest = self._transactions.get(transactional_id)
        if newest is not self._committed.get(transactional_id):
            return True
        return newest is not None and newest.state in PREPARED

    def require_settled(self, transactional_id: str) -> None:
        """Raises ApiError(CONCURRENT_TRANSACTIONS), which clients retry, while the id is in transition."""
        if self.is_in_transition(transactional_id):
            raise ApiError(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"transactional id {transactional_id}: the last step is not complete yet; try again",
            )

    def prepared(self) -> list[str]:
        """Transactional ids whose markers are not written yet."""
        return sorted(
            transactional_id for transactional_id, each in self._transactions.items() if each.state in PREPARED
        )

    def write(self, transactional_id: str, after: Transaction) -> Transaction:
        """Write the state of a transactional id. If it decides the outcome, the markers follow once it is committed."""
        before = self._transactions.get(transactional_id)
        assert before is None or after.state in TRANSITIONS[before.state], (before, after)
        assert after.producer_id >= 0, after
        assert 0 <= after.producer_epoch <= EPOCH_MAX, after
        assert after.producer_epoch < EPOCH_MAX or after.state not in OF_A_PRODUCER, after
        assert after.next_producer_epoch < EPOCH_MAX or after.state not in OF_A_PRODUCER, after
        self._transactions = self._transactions.set(transactional_id, after)
        self.records.append((key_of(transactional_id), value_of(after, self.level)))
        if after.state in PREPARED:
            self.effects.append(ending_of(transactional_id, after))
        return after

    def forget(self, transactional_id: str) -> None:
        self._transactions = self._transactions.delete(transactional_id)
        self.records.append((key_of(transactional_id), None))

    def note(self, event: str, **fields: Any) -> None:
        self.notes.append({"event": event, **fields})


class FreshId:
    """A new producer id for an operation that may need one."""

    __slots__ = ("_producer_id",)

    def __init__(self, producer_id: int | None = None) -> None:
        self._producer_id = producer_id

    def take(self) -> int:
        """Return the id. Raises ProducerIdNeeded if none was obtained."""
        if self._producer_id is None:
            raise ProducerIdNeeded
        return self._producer_id


class TransactionShard:
    """Implements `CoordinatorShard` for `TransactionShardState`. `level` returns the cluster's current
    transaction.version. It has no deadlines: timeouts are checked periodically, as in Kafka."""

    def __init__(self, level: Callable[[], int]) -> None:
        self._level = level

    is_compacted: Final = True

    def empty(self) -> TransactionShardState:
        return TransactionShardState()

    def replay(
        self, state: TransactionShardState, key: bytes, value: bytes | None, producer: Producer | None = None
    ) -> TransactionShardState:
        found = decode(key, value)
        if found is None:
            return state
        transactional_id, transaction = found
        if transaction is not None:
            return TransactionShardState(state.transactions.set(transactional_id, transaction))
        if transactional_id in state.transactions:
            return TransactionShardState(state.transactions.delete(transactional_id))
        return state

    def replay_marker(self, state: TransactionShardState, marker: Marker) -> TransactionShardState:
        return state

    def draft(
        self,
        state: TransactionShardState,
        token: Token,
        moment: Moment,
        producer: Producer | None = None,
        committed: TransactionShardState | None = None,
    ) -> TransactionDraft:
        return TransactionDraft(state, state if committed is None else committed, self._level(), moment)

    def loaded(self, draft: TransactionDraft) -> None:
        """Resume the transactions that the previous coordinator decided but did not complete."""
        for transactional_id in draft.prepared():
            found = draft.transaction(transactional_id)
            assert found is not None
            draft.effects.append(ending_of(transactional_id, found))

    def deadlines(self, state: TransactionShardState) -> Iterable[tuple[TimerKey, int]]:
        return ()

    def deadline_of(self, state: TransactionShardState, key: TimerKey) -> int | None:
        return None

    def expire(self, draft: TransactionDraft, key: TimerKey) -> None:
        raise AssertionError(f"no deadline was set for {key}")
