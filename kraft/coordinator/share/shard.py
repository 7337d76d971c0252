"""The share partitions of one partition of `__share_group_state`, hosted by the coordinator runtime.

The topic is not compacted. Each write appends an update, or a snapshot after `updates_max` updates. Records before the
latest snapshot of every share partition are redundant, and `share_coordinator` has them deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from immutables import Map

from kraft.coordinator.records.share_snapshot_value import ShareSnapshotValue
from kraft.coordinator.records.share_update_value import ShareUpdateValue
from kraft.coordinator.shard import LogRecord, Marker, Moment, Producer, TimerKey, Token
from kraft.coordinator.share.records import (
    after_snapshot,
    after_update,
    decode,
    snapshot_record,
    tombstone,
    update_record,
)
from kraft.coordinator.share.share_state import SharePartitionKey, ShareState


@dataclass(frozen=True, slots=True)
class ShareShardState:
    """The states by share partition. The map is iterated only in key order: `sorted(...)`."""

    partitions: Map[SharePartitionKey, ShareState] = field(default_factory=Map)


class ShareDraft:
    """The draft of one operation. `updates_max` is the number of updates after which a snapshot is written."""

    def __init__(self, state: ShareShardState, updates_max: int, moment: Moment) -> None:
        self.updates_max = updates_max
        self.wall_ms = moment.wall_ms
        self.records: list[LogRecord] = []
        self.effects: tuple[()] = ()
        self.completions: tuple[()] = ()
        self.timers: tuple[()] = ()
        self.notes: tuple[()] = ()
        self._partitions = state.partitions

    def finish(self) -> ShareShardState:
        return ShareShardState(self._partitions)

    def state_of(self, key: SharePartitionKey) -> ShareState | None:
        return self._partitions.get(key)

    def keys(self) -> list[SharePartitionKey]:
        return sorted(self._partitions)

    def write_snapshot(self, key: SharePartitionKey, state: ShareState) -> None:
        """Write the whole state. Replay of the record sets the epochs and the count of updates."""
        self._replay(snapshot_record(key, state))

    def write_update(self, key: SharePartitionKey, update: ShareUpdateValue) -> None:
        """Write a change of the state."""
        self._replay(update_record(key, update))

    def delete(self, key: SharePartitionKey) -> None:
        self._replay(tombstone(key))

    def _replay(self, record: LogRecord) -> None:
        self.records.append(record)
        self._partitions = replayed(self._partitions, *record, self.updates_max)


def replayed(
    partitions: Map[SharePartitionKey, ShareState], key: bytes, value: bytes | None, updates_max: int
) -> Map[SharePartitionKey, ShareState]:
    """Return the states after one record. Raises ProtocolError for unreadable bytes."""
    found = decode(key, value)
    if found is None:
        return partitions
    name, record = found
    before = partitions.get(name)
    if isinstance(record, ShareSnapshotValue):
        return partitions.set(name, after_snapshot(before, record, updates_max))
    if isinstance(record, ShareUpdateValue):
        return partitions.set(name, after_update(before, record))
    return partitions if before is None else partitions.delete(name)


class ShareShard:
    """Implements `CoordinatorShard` for `ShareShardState`. It has no deadlines."""

    is_compacted: Final = False

    def __init__(self, updates_max: int) -> None:
        self._updates_max = updates_max

    def empty(self) -> ShareShardState:
        return ShareShardState()

    def replay(
        self, state: ShareShardState, key: bytes, value: bytes | None, producer: Producer | None = None
    ) -> ShareShardState:
        return ShareShardState(replayed(state.partitions, key, value, self._updates_max))

    def replay_marker(self, state: ShareShardState, marker: Marker) -> ShareShardState:
        return state

    def draft(
        self,
        state: ShareShardState,
        token: Token,
        moment: Moment,
        producer: Producer | None = None,
        committed: ShareShardState | None = None,
    ) -> ShareDraft:
        return ShareDraft(state, self._updates_max, moment)

    def loaded(self, draft: ShareDraft) -> None:
        """Does nothing: the shard has no timers to restart."""

    def deadlines(self, state: ShareShardState) -> Iterable[tuple[TimerKey, int]]:
        return ()

    def deadline_of(self, state: ShareShardState, key: TimerKey) -> int | None:
        return None

    def expire(self, draft: Any, key: TimerKey) -> None:
        raise AssertionError(f"a share shard has no deadlines: {key}")
