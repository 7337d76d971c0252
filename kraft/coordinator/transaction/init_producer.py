"""InitProducerId with a transactional id: a producer takes it over, and the previous producer is fenced (KIP-98,
KIP-360, KIP-588). The open transaction of the previous producer is aborted, or kept for the new one to end (KIP-939).
"""

from __future__ import annotations

from typing import NamedTuple

from kraft.common.errors import ApiError
from kraft.coordinator.transaction.ending import abort_for_producer
from kraft.coordinator.transaction.shard import FreshId, TransactionDraft
from kraft.coordinator.transaction.transaction import (
    EPOCHS_BUMPED_AT_END,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    State,
    Transaction,
    is_exhausted,
)
from kraft.protocol.error_codes import ErrorCode


class Claim(NamedTuple):
    """The current id and epoch that a producer sends (KIP-360)."""

    producer_id: int
    producer_epoch: int


def init_producer(
    draft: TransactionDraft, transactional_id: str, timeout_ms: int, claim: Claim | None, fresh: FreshId
) -> Transaction | None:
    """Return the producer's new identity; None if an open transaction must be aborted first, and the producer must
    retry. Raises ApiError, ProducerIdNeeded."""
    draft.require_settled(transactional_id)
    found = draft.transaction(transactional_id)
    if found is None:
        found = Transaction(fresh.take(), NO_PRODUCER_EPOCH, timeout_ms)
    elif claim is not None and not _may_be(claim, found):
        raise ApiError(ErrorCode.PRODUCER_FENCED, f"another producer has taken over {transactional_id}")
    if found.state is State.ONGOING:
        abort_for_producer(draft, transactional_id, found, fresh)
        return None
    renewed = _renewed(found, claim, fresh)
    return draft.write(
        transactional_id,
        renewed._replace(
            state=State.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP,
            updated_ms=draft.wall_ms,
            previous_producer_id=found.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
        ),
    )


def keep_transaction(
    draft: TransactionDraft, transactional_id: str, timeout_ms: int, claim: Claim | None, fresh: FreshId
) -> Transaction | None:
    """Fence the producer of an open transaction, and keep the transaction for a new producer to end (KIP-939). Returns
    None if no transaction is open. The transaction keeps the longer timeout. Raises ApiError, ProducerIdNeeded."""
    draft.require_settled(transactional_id)
    found = draft.transaction(transactional_id)
    if found is None or found.state is not State.ONGOING:
        return None
    if draft.level < EPOCHS_BUMPED_AT_END:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"transactional id {transactional_id}: keepPreparedTxn needs transaction.version {EPOCHS_BUMPED_AT_END}",
        )
    if claim is not None and claim != found.owner:
        raise ApiError(ErrorCode.PRODUCER_FENCED, f"another producer has taken over {transactional_id}")
    owner_id, owner_epoch = found.owner
    next_id, next_epoch = (fresh.take(), 0) if is_exhausted(owner_epoch) else (owner_id, owner_epoch + 1)
    return draft.write(
        transactional_id,
        found._replace(
            next_producer_id=next_id,
            next_producer_epoch=next_epoch,
            timeout_ms=max(found.timeout_ms, timeout_ms),
            updated_ms=draft.wall_ms,
        ),
    )


def _may_be(claim: Claim, found: Transaction) -> bool:
    """Whether the claim names the recorded id, or the previous one whose epochs are exhausted: the response with the
    new id may be lost."""
    return claim.producer_id in (found.producer_id, found.owner[0]) or (
        claim.producer_id == found.previous_producer_id and is_exhausted(claim.producer_epoch)
    )


def _renewed(found: Transaction, claim: Claim | None, fresh: FreshId) -> Transaction:
    if found.is_exhausted and (claim is None or claim.producer_epoch == found.producer_epoch):
        return found._replace(
            producer_id=fresh.take(),
            producer_epoch=0,
            last_producer_epoch=NO_PRODUCER_EPOCH if claim is None else found.producer_epoch,
        )
    if claim is None or found.producer_epoch == NO_PRODUCER_EPOCH:
        return found._replace(producer_epoch=found.producer_epoch + 1, last_producer_epoch=NO_PRODUCER_EPOCH)
    if claim.producer_epoch == found.producer_epoch:
        return found._replace(producer_epoch=found.producer_epoch + 1, last_producer_epoch=found.producer_epoch)
    if claim.producer_epoch == found.last_producer_epoch:
        return found  # A repeated request: no other producer has claimed the id since.
    raise ApiError(
        ErrorCode.PRODUCER_FENCED,
        f"producer {claim.producer_id}: epoch {claim.producer_epoch} is not the newest, {found.producer_epoch}",
    )
