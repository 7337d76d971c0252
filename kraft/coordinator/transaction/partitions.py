"""The partitions of a transaction: AddPartitionsToTxn, AddOffsetsToTxn, and verification (KIP-98, KIP-890, KIP-939)."""

from __future__ import annotations

from collections.abc import Collection

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.transaction.shard import TransactionDraft, TransactionShardState
from kraft.coordinator.transaction.transaction import EPOCH_MAX, PREPARED, State, Transaction
from kraft.protocol.error_codes import ErrorCode


def add_partitions(
    draft: TransactionDraft,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
    version: int,
) -> None:
    """Add partitions; the first ones open the transaction. `version` is the transaction.version of the request. Raises
    ApiError."""
    found = draft.transaction(transactional_id)
    if not _is_opened_by(found, producer_id, producer_epoch):
        draft.require_settled(transactional_id)
    found = _of_producer(found, producer_id, producer_epoch)
    if found.state is State.ONGOING and found.partitions.issuperset(partitions):
        return
    draft.write(
        transactional_id,
        found._replace(
            state=State.ONGOING,
            partitions=found.partitions | frozenset(partitions),
            started_ms=found.started_ms if found.state is State.ONGOING else draft.wall_ms,
            updated_ms=draft.wall_ms,
            previous_producer_id=found.producer_id,
            client_version=version,
        ),
    )


def _is_opened_by(found: Transaction | None, producer_id: int, producer_epoch: int) -> bool:
    """Whether the producer has the transaction open. Then partitions are added immediately, even if the record that
    opened it is not committed: the response waits for that record. Kafka has the producer retry."""
    return (
        found is not None
        and found.state is State.ONGOING
        and not found.is_kept
        and (found.producer_id, found.producer_epoch) == (producer_id, producer_epoch)
        and producer_epoch < EPOCH_MAX
    )


def missing_partitions(
    state: TransactionShardState,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
) -> set[TopicPartition]:
    """The partitions that are not in the producer's transaction. Raises ApiError."""
    found = _of_producer(state.transactions.get(transactional_id), producer_id, producer_epoch)
    return set(partitions) - found.partitions


def _of_producer(found: Transaction | None, producer_id: int, producer_epoch: int) -> Transaction:
    if found is not None and found.is_kept:
        raise _not_writable(found, producer_id, producer_epoch)
    if found is None or found.producer_id != producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.producer_epoch != producer_epoch or producer_epoch == EPOCH_MAX:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if found.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return found


def _not_writable(kept: Transaction, producer_id: int, producer_epoch: int) -> ApiError:
    """The error of every write to a kept transaction: its records are final (KIP-939)."""
    if (producer_id, producer_epoch) == kept.owner:
        return ApiError(ErrorCode.INVALID_TXN_STATE, "the transaction was kept to be ended: it accepts no records")
    if producer_id in (kept.producer_id, kept.next_producer_id):
        return ApiError(ErrorCode.PRODUCER_FENCED)
    return ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
