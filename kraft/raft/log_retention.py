"""Where the metadata log should begin: at the next snapshot, as long as log and snapshots together are too large or
the oldest snapshot is too old (KIP-630).
"""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.log_state import LogState
from kraft.raft.quorum_storage import QuorumStorage
from kraft.raft.raft_config import RaftConfig

ROLL_BYTES_MIN = 1 << 20


def should_roll(state: LogState, storage: QuorumStorage) -> bool:
    """After a snapshot a log of some size goes on in a new segment, so that what the snapshot covers can be removed
    later."""
    newest = state.latest_snapshot
    return (
        newest is not None
        and newest.offset > storage.log.active_base_offset
        and storage.log.active_size >= ROLL_BYTES_MIN
    )


def next_start(
    config: RaftConfig, state: LogState, storage: QuorumStorage, position: float, now_ms: int
) -> OffsetAndEpoch | None:
    """The snapshot from which the log shall start, None if it may stay as it is. At least one snapshot stays, and
    what a listener at `position` has not read.
    """
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
    """Move the start of the log as far as `next_start` wants it, telling the core of each step first. Returns how
    many steps that were."""
    steps = 0
    while (snapshot := next_start(config, state, storage, position, now_ms)) is not None:
        older = [kept for kept in state.snapshots if kept < snapshot]
        tell(snapshot)
        assert state.start_offset == snapshot.offset, "the core knows before the files go"
        storage.log.delete_before(snapshot.offset)
        storage.remove_snapshots_before(snapshot, older)
        steps += 1
    return steps
