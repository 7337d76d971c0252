"""Decides where the metadata log should start: at the next snapshot, while log and snapshots together are too large or
the oldest snapshot is too old (KIP-630)."""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.log_state import LogState
from kraft.raft.quorum_storage import QuorumStorage
from kraft.raft.raft_config import RaftConfig

ROLL_BYTES_MIN = 1 << 20


def should_roll(state: LogState, storage: QuorumStorage) -> bool:
    """Whether to start a new segment after a snapshot, so that the records that the snapshot covers can be removed
    later. Small segments are not rolled."""
    newest = state.latest_snapshot
    return (
        newest is not None
        and newest.offset > storage.log.active_base_offset
        and storage.log.active_size >= ROLL_BYTES_MIN
    )


def next_start(
    config: RaftConfig, state: LogState, storage: QuorumStorage, position: float, now_ms: int
) -> OffsetAndEpoch | None:
    """Return the snapshot from which the log should start, or None if it should stay as it is. At least one snapshot is
    kept, and everything that a listener at `position` has not read."""
    following = next((snapshot for snapshot in state.snapshots if snapshot.offset > state.start_offset), None)
    if following is None or following.offset > position or not is_over_bounds(config, state, storage, now_ms):
        return None
    return following


def is_over_bounds(config: RaftConfig, state: LogState, storage: QuorumStorage, now_ms: int) -> bool:
    size = storage.log.size + sum(storage.snapshot_size(snapshot) for snapshot in state.snapshots)
    if 0 <= config.retention_bytes < size:
        return True
    oldest = storage.open_snapshot(state.snapshots[0])
    oldest.close()
    return 0 <= config.retention_ms < now_ms - oldest.last_contained_timestamp_ms


def trim(
    config: RaftConfig,
    state: LogState,
    storage: QuorumStorage,
    position: float,
    now_ms: int,
    tell: Callable[[OffsetAndEpoch], None],
) -> int:
    """Move the start of the log as far as `next_start` requires. `tell` reports each step to the core first. Returns
    the number of steps."""
    steps = 0
    while (snapshot := next_start(config, state, storage, position, now_ms)) is not None:
        older = [kept for kept in state.snapshots if kept < snapshot]
        tell(snapshot)
        assert state.start_offset == snapshot.offset, "the core knows before the files go"
        storage.log.delete_before(snapshot.offset)
        storage.remove_snapshots_before(snapshot, older)
        steps += 1
    return steps
