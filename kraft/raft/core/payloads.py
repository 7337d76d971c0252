"""What the core itself writes to the log. The driver encodes these as control batches (LeaderChangeMessage, KRaftVersionRecord, VotersRecord)."""

from __future__ import annotations

from typing import NamedTuple

from kraft.raft.core.voter_set import ReplicaKey, VoterSet


class LeaderChange(NamedTuple):
    """First batch of an epoch."""

    leader_id: int
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]


class Voters(NamedTuple):
    """A KRaftVersionRecord if `kraft_version` is given, and a VotersRecord."""

    kraft_version: int | None
    voters: VoterSet
