"""The payloads that the core itself writes to the log. The driver encodes them as control batches (LeaderChangeMessage,
KRaftVersionRecord, VotersRecord)."""

from __future__ import annotations

from typing import NamedTuple

from kraft.raft.core.voter_set import ReplicaKey, VoterSet


class Voters(NamedTuple):
    """A VotersRecord, preceded by a KRaftVersionRecord if `kraft_version` is given."""

    kraft_version: int | None
    voters: VoterSet


class LeaderChange(NamedTuple):
    """The first batch of an epoch. `update` follows in the same batch."""

    leader_id: int
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]
    update: Voters | None = None
