"""The operations on one share partition, each on a draft (KIP-932): initialize, read, write, delete, summarize.

Refusals are ApiError with Kafka's codes. The caller has checked that the topic and the partition exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kraft.common.errors import ApiError
from kraft.coordinator.share.records import update_value
from kraft.coordinator.share.shard import ShareDraft
from kraft.coordinator.share.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    NO_COUNT,
    NO_OFFSET,
    SharePartitionKey,
    ShareState,
    StateBatch,
    combine,
)
from kraft.protocol.error_codes import ErrorCode

STATES: Final = frozenset((AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED))


def initialize(draft: ShareDraft, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
    """Create a state at `start_offset`. A higher state epoch fences writers of the earlier state."""
    if state_epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The state epoch cannot be a negative number.")
    known = draft.state_of(key)
    if known is not None:
        _check_state_epoch(known, state_epoch)
    draft.write_snapshot(
        key,
        ShareState(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=NO_COUNT if start_offset == NO_OFFSET else 0,
            create_timestamp_ms=draft.wall_ms,
            write_timestamp_ms=draft.wall_ms,
        ),
    )


def read(draft: ShareDraft, key: SharePartitionKey, leader_epoch: int) -> ShareState:
    """Return the state for the partition's leader, and fence the leaders of earlier epochs."""
    if leader_epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The leader epoch cannot be a negative number.")
    known = draft.state_of(key)
    if known is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed.")
    _check_leader_epoch(known, leader_epoch)
    if known.latest_leader_epoch != leader_epoch:
        _write(draft, key, known, leader_epoch, known.start_offset, known.delivery_complete_count, ())
    return known


def write(
    draft: ShareDraft,
    key: SharePartitionKey,
    *,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Sequence[StateBatch],
) -> None:
    """Add `batches` to the state and raise its start offset. Rejected for a leader epoch or state epoch below the
    recorded one."""
    if leader_epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The leader epoch cannot be a negative number.")
    if state_epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The state epoch cannot be a negative number.")
    known = draft.state_of(key)
    if known is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed.")
    _check_leader_epoch(known, leader_epoch)
    _check_state_epoch(known, state_epoch)
    for batch in batches:
        if not 0 <= batch.first_offset <= batch.last_offset or batch.delivery_state not in STATES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{batch} is no delivery state of a range of records.")
    complete = delivery_complete_count
    if start_offset == known.start_offset:
        complete = max(complete, known.delivery_complete_count)
    elif start_offset < known.start_offset:
        complete = known.delivery_complete_count
    _write(draft, key, known, known.leader_epoch, max(start_offset, known.start_offset), complete, batches)


def _write(
    draft: ShareDraft,
    key: SharePartitionKey,
    known: ShareState,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Sequence[StateBatch],
) -> None:
    """Write a snapshot if the limit of updates is reached, else an update."""
    if known.update_count >= draft.updates_max:
        draft.write_snapshot(
            key,
            replace(
                known,
                snapshot_epoch=known.snapshot_epoch + 1,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=delivery_complete_count,
                batches=combine(known.batches, batches, start_offset),
                create_timestamp_ms=draft.wall_ms,
                write_timestamp_ms=draft.wall_ms,
            ),
        )
        return
    combined = combine((), batches, start_offset)
    draft.write_update(
        key, update_value(known.snapshot_epoch, leader_epoch, start_offset, delivery_complete_count, combined)
    )


def delete(draft: ShareDraft, key: SharePartitionKey) -> None:
    """Delete the state. Does nothing if there is none."""
    if draft.state_of(key) is not None:
        draft.delete(key)


def write_cold_snapshot(draft: ShareDraft, key: SharePartitionKey, snapshot_epoch: int) -> None:
    """Write a snapshot of the state, unless its latest snapshot is newer than `snapshot_epoch`."""
    known = draft.state_of(key)
    if known is not None and known.snapshot_epoch <= snapshot_epoch:
        cold = replace(known, snapshot_epoch=known.snapshot_epoch + 1, write_timestamp_ms=draft.wall_ms)
        draft.write_snapshot(key, cold)


def _check_leader_epoch(known: ShareState, leader_epoch: int) -> None:
    if known.latest_leader_epoch > leader_epoch:
        raise ApiError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {leader_epoch} is lower than {known.latest_leader_epoch}, which has used the state since",
        )


def _check_state_epoch(known: ShareState, state_epoch: int) -> None:
    if known.latest_state_epoch > state_epoch:
        raise ApiError(
            ErrorCode.FENCED_STATE_EPOCH,
            f"state epoch {state_epoch} is lower than {known.latest_state_epoch}, that of the present state",
        )
