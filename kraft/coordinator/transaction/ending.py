"""How a transaction ends: EndTxn, what the coordinator aborts by itself, and completion once the markers are written.

Retries under transaction.version 2, where each end raises the epoch: a producer that asks again has the epoch before
the one on record (or the last of the former producer id).

| on record | abort, again | abort, next | commit, again | commit, next |
|---|---|---|---|---|
| Empty | fenced | aborted | fenced | INVALID_TXN_STATE |
| CompleteAbort | as before | aborted | INVALID_TXN_STATE | INVALID_TXN_STATE |
| CompleteCommit | INVALID_TXN_STATE | aborted | as before | INVALID_TXN_STATE |

While an id is in transition (a record that is not committed, or markers that are not written) the answer is
CONCURRENT_TRANSACTIONS, whatever the epoch: the producer that was told its new epoch may be quicker than the markers.

A kept transaction (KIP-939) is ended by its owner, the producer that InitProducerId answered. While the producer id is
the same, the end is as if the owner had written the transaction. If the owner has another id, because the epochs were
exhausted, the markers have the id that wrote the transaction, and the owner's id follows once they are written.
"""

from __future__ import annotations

from typing import NamedTuple

from kraft.common.errors import ApiError
from kraft.coordinator.transaction.shard import FreshId, TransactionDraft
from kraft.coordinator.transaction.transaction import (
    EPOCH_MAX,
    EPOCHS_BUMPED_AT_END,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Ending,
    State,
    Transaction,
    is_exhausted,
)
from kraft.protocol.error_codes import ErrorCode

PREPARE = {True: State.PREPARE_COMMIT, False: State.PREPARE_ABORT}
COMPLETE = {True: State.COMPLETE_COMMIT, False: State.COMPLETE_ABORT}


class End(NamedTuple):
    """An end requested by a producer. `version` is the transaction.version of its request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    version: int


def end_transaction(draft: TransactionDraft, end: End, fresh: FreshId) -> tuple[int, int]:
    """Decide the outcome. Returns the producer's new id and epoch; (-1, -1) for clients that keep theirs. Raises
    ApiError, ProducerIdNeeded."""
    found = draft.committed(end.transactional_id)
    if found is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{end.transactional_id} has no producer")
    if end.version < EPOCHS_BUMPED_AT_END:
        _end_as_before(draft, end, found)
        return NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    draft.require_settled(end.transactional_id)
    return _end_with_new_epoch(draft, end, found, fresh)


def _end_as_before(draft: TransactionDraft, end: End, found: Transaction) -> None:
    owner_id, owner_epoch = found.owner
    if owner_id != end.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if owner_epoch != end.producer_epoch or end.producer_epoch == EPOCH_MAX:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    draft.require_settled(end.transactional_id)
    if found.state is State.ONGOING:
        found = taken_over(found)
        draft.write(
            end.transactional_id,
            found._replace(
                state=PREPARE[end.committed],
                previous_producer_id=owner_id,
                updated_ms=draft.wall_ms,
                client_version=0,
            ),
        )
    elif found.state is not COMPLETE[end.committed]:
        raise _wrong_state(end, found)


def _end_with_new_epoch(draft: TransactionDraft, end: End, found: Transaction, fresh: FreshId) -> tuple[int, int]:
    was_rotated = (
        found.previous_producer_id == end.producer_id
        and end.producer_epoch == EPOCH_MAX - 1
        and found.producer_epoch == 0
    )
    is_retry = was_rotated or found.producer_epoch == end.producer_epoch + 1
    owner_id, owner_epoch = found.owner
    if end.producer_id not in (owner_id, found.producer_id) and not was_rotated:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.state in (State.ONGOING, State.EMPTY):
        is_valid = (end.producer_id, end.producer_epoch) == (owner_id, owner_epoch)
    else:
        is_valid = is_retry or end.producer_epoch == found.producer_epoch
    if not is_valid or end.producer_epoch == EPOCH_MAX:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if found.state is State.ONGOING:
        after = prepare(draft, end.transactional_id, found, committed=end.committed, version=end.version, fresh=fresh)
    elif found.state is COMPLETE[end.committed] and is_retry:
        after = found
    elif end.committed or (is_retry and found.state is not State.EMPTY):
        raise _wrong_state(end, found)
    else:
        after = prepare(draft, end.transactional_id, found, committed=False, version=end.version, fresh=fresh)
    return told_to_producer(after)


def told_to_producer(after: Transaction) -> tuple[int, int]:
    """The producer's id and epoch for its next transaction: a new id if its epochs are exhausted."""
    if after.next_producer_id != NO_PRODUCER_ID:
        return after.next_producer_id, max(after.next_producer_epoch, 0)
    return after.producer_id, after.producer_epoch


def taken_over(found: Transaction) -> Transaction:
    """An open transaction as its owner ends it. If a kept one has the owner's id, the owner counts as its writer: the
    marker then fences every earlier epoch. Else the owner's id and epoch remain as the next ones."""
    if found.is_kept and found.next_producer_id == found.producer_id:
        return found._replace(
            producer_epoch=found.next_producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
        )
    if found.is_kept:
        return found
    return found._replace(next_producer_id=NO_PRODUCER_ID, next_producer_epoch=NO_PRODUCER_EPOCH)


def prepare(
    draft: TransactionDraft, transactional_id: str, found: Transaction, *, committed: bool, version: int, fresh: FreshId
) -> Transaction:
    """Decide the outcome, with a new epoch. Without any partition it begins and ends now. Raises ProducerIdNeeded.

    The last epoch stays, as in Kafka: no producer has it, but the log of an earlier release may hold a transaction of
    it. Leaders refuse a marker of transaction.version 2 whose epoch did not rise, so that one is of version 0."""
    owner_id, owner_epoch = found.producer_id, found.producer_epoch
    if found.next_producer_epoch != NO_PRODUCER_EPOCH:
        owner_id, owner_epoch = found.owner
        found = taken_over(found)
    epoch = min(found.producer_epoch + 1, EPOCH_MAX)
    next_id, next_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if is_exhausted(owner_epoch):
        next_id = fresh.take()
    elif owner_id != found.producer_id:
        next_id, next_epoch = owner_id, owner_epoch + 1
    return draft.write(
        transactional_id,
        found._replace(
            state=PREPARE[committed],
            producer_epoch=epoch,
            last_producer_epoch=owner_epoch,
            previous_producer_id=owner_id,
            next_producer_id=next_id,
            next_producer_epoch=next_epoch,
            started_ms=found.started_ms if found.state is State.ONGOING else draft.wall_ms,
            updated_ms=draft.wall_ms,
            client_version=version if epoch > found.producer_epoch else 0,
        ),
    )


def abort_for_producer(draft: TransactionDraft, transactional_id: str, found: Transaction, fresh: FreshId) -> None:
    """Abort an open transaction because a new producer takes over the id, or it timed out. The epoch rises, which
    fences the old producer. Raises ProducerIdNeeded."""
    if draft.level >= EPOCHS_BUMPED_AT_END:
        prepare(draft, transactional_id, found, committed=False, version=draft.level, fresh=fresh)
        return
    owner_id, owner_epoch = found.owner
    found = taken_over(found)
    if found.is_kept:
        found = found._replace(next_producer_epoch=min(owner_epoch + 1, EPOCH_MAX))
    draft.write(
        transactional_id,
        found._replace(
            state=State.PREPARE_ABORT,
            producer_epoch=min(found.producer_epoch + 1, EPOCH_MAX),
            last_producer_epoch=NO_PRODUCER_EPOCH,
            previous_producer_id=owner_id,
            updated_ms=draft.wall_ms,
            client_version=0,
        ),
    )


def abort_timed_out(draft: TransactionDraft, transactional_id: str, fresh: FreshId) -> bool:
    """Abort the transaction if it has exceeded its timeout. Raises ProducerIdNeeded."""
    found = draft.transaction(transactional_id)
    if found is None or draft.is_in_transition(transactional_id) or not is_timed_out(found, draft.wall_ms):
        return False
    abort_for_producer(draft, transactional_id, found, fresh)
    draft.note(
        "transaction_timed_out",
        transactional_id=transactional_id,
        producer_id=found.producer_id,
        timeout_ms=found.timeout_ms,
    )
    return True


def is_timed_out(found: Transaction, wall_ms: int) -> bool:
    """Whether the coordinator must abort the transaction; never with two-phase commit (KIP-939)."""
    return (
        found.state is State.ONGOING
        and found.timeout_ms != NO_TIMEOUT_MS
        and found.started_ms + found.timeout_ms < wall_ms
    )


def complete(draft: TransactionDraft, ending: Ending) -> None:
    """Complete a transaction whose markers are all written. Ignored if it is already complete or another transaction is
    open."""
    found = draft.transaction(ending.transactional_id)
    if (
        found is None
        or found.state is not PREPARE[ending.committed]
        or (found.producer_id, found.producer_epoch, found.started_ms)
        != (ending.producer_id, ending.producer_epoch, ending.started_ms)
    ):
        return
    producer_id, producer_epoch = told_to_producer(found)
    draft.write(
        ending.transactional_id,
        found._replace(
            state=COMPLETE[ending.committed],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            previous_producer_id=(
                found.producer_id if found.previous_producer_id == NO_PRODUCER_ID else found.previous_producer_id
            ),
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            partitions=frozenset(),
            updated_ms=draft.wall_ms,
        ),
    )


def _wrong_state(end: End, found: Transaction) -> ApiError:
    verb = "committed" if end.committed else "aborted"
    return ApiError(ErrorCode.INVALID_TXN_STATE, f"a transaction in state {found.state.shown} cannot be {verb}")
