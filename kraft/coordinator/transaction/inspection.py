"""Descriptions of transactions (KIP-664, KIP-994), and the selection of those that time out or expire."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice

from kraft.coordinator.regular_expression import RegularExpression
from kraft.coordinator.shard import Operation
from kraft.coordinator.sweeps import Walk
from kraft.coordinator.transaction.ending import is_timed_out
from kraft.coordinator.transaction.shard import TransactionDraft, TransactionShardState
from kraft.coordinator.transaction.transaction import AT_REST, State, Transaction
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import describe_transactions_response as described
from kraft.protocol.messages import list_transactions_response as listed

IDS_A_TURN = 256
"""Transactional ids examined between two yields: less than a millisecond."""

STATES = {state.shown: state for state in State}
SHOWN_STATES = (*STATES, "Dead", "PrepareEpochFence")
"""State names that Kafka's tools may ask for; nothing is ever found in the last two."""


def describe(state: TransactionShardState, transactional_id: str) -> described.TransactionState:
    found = state.transactions.get(transactional_id)
    if found is None:
        return described.TransactionState(
            error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id
        )
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        topics.setdefault(topic, []).append(partition)
    return described.TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.shown,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[described.TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )


def matching(
    state: TransactionShardState,
    states: Collection[State] | None,
    producer_ids: Collection[int],
    open_since_ms: int | None,
) -> Iterator[listed.TransactionState | None]:
    """Yield the transactions with one of the states (None: any) and producers (empty: any) that began before a time.
    Yields None for each other one, where the caller may pause."""
    for transactional_id in sorted(state.transactions):
        found = state.transactions[transactional_id]
        if (
            (states is not None and found.state not in states)
            or (producer_ids and found.producer_id not in producer_ids)
            or (open_since_ms is not None and found.started_ms >= open_since_ms)
        ):
            yield None
            continue
        yield listed.TransactionState(
            transactional_id=transactional_id,
            producer_id=found.producer_id,
            transaction_state=found.state.shown,
        )


def named(pattern: RegularExpression, found: Sequence[listed.TransactionState]) -> list[listed.TransactionState]:
    """The transactions whose ids match the pattern. May be slow: run it in a thread."""
    return [each for each in found if pattern.matches(each.transactional_id)]


def timed_out(state: TransactionShardState, wall_ms: int) -> Iterator[str | None]:
    """Yield the transactional ids whose transaction has exceeded its timeout, and None for every other."""
    for transactional_id, found in state.transactions.items():
        yield transactional_id if is_timed_out(found, wall_ms) else None


def expiring(retention_ms: int) -> Walk[TransactionShardState]:
    """The sweep that deletes transactional ids unused for `retention_ms` (transactional.id.expiration.ms)."""

    def walk(state: TransactionShardState) -> Iterator[Operation]:
        ids = iter(state.transactions)
        while portion := list(islice(ids, IDS_A_TURN)):
            yield partial(_expire, transactional_ids=sorted(portion), retention_ms=retention_ms)

    return walk


def _expire(draft: TransactionDraft, *, transactional_ids: Sequence[str], retention_ms: int) -> None:
    for transactional_id in transactional_ids:
        found = draft.transaction(transactional_id)
        if draft.is_in_transition(transactional_id):
            continue
        if found is not None and _may_go(found, draft.wall_ms - retention_ms):
            draft.forget(transactional_id)


def _may_go(found: Transaction, until_ms: int) -> bool:
    return found.state in AT_REST and found.updated_ms <= until_ms
