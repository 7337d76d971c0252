"""The state that a replica must never lose: its epoch, its vote in that epoch, and the leader that it followed.
Persisted as `quorum-state`."""

from __future__ import annotations

from typing import NamedTuple

from kraft.raft.core.voter_set import ReplicaKey

NO_LEADER = -1


class ElectionState(NamedTuple):
    """One replica's state of an epoch. A vote stays until the epoch rises, and so does a known leader."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None

    @property
    def has_leader(self) -> bool:
        return self.leader_id != NO_LEADER
