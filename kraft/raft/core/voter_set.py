"""The voters of the quorum. A voter is a node id together with a directory id (KIP-853): a node whose disk was wiped
returns with another directory id and is another voter.

A voter set is in effect as soon as its record is appended, not when it commits. It is undone when the record is
truncated. `VoterSetHistory` keeps every set that is still in the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kraft.common.ids import ZERO_UUID

BOOTSTRAP_OFFSET = -1  # Offset of sets from configuration or the bootstrap checkpoint, not from the log.


class ReplicaKey(NamedTuple):
    """The identity of a replica. A zero directory id means "not known" (kraft.version 0) and matches any."""

    id: int
    directory_id: bytes = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        return self.id == other.id and (
            self.directory_id == other.directory_id or self.directory_id == ZERO_UUID or other.directory_id == ZERO_UUID
        )


class Endpoint(NamedTuple):
    """One listener of a controller: listener name, host, port."""

    name: str
    host: str
    port: int


Endpoints = tuple[Endpoint, ...]


class Voter(NamedTuple):
    """One member of a voter set, as in VotersRecord: identity, listeners, and its range of kraft.version."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    min_version: int = 0
    max_version: int = 0


class VoterSet:
    """An immutable set of voters, sorted by id, with at most one voter per id."""

    __slots__ = ("_by_id", "voters")

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self.voters: tuple[Voter, ...] = tuple(sorted(voters, key=lambda voter: voter.key.id))
        self._by_id: dict[int, Voter] = {voter.key.id: voter for voter in self.voters}
        if len(self._by_id) != len(self.voters):
            raise ValueError(f"two voters with one id: {self.voters}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.voters == other.voters

    def __hash__(self) -> int:
        return hash(self.voters)

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter.key.id) for voter in self.voters)})"

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._by_id)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def get(self, node_id: int) -> Voter | None:
        return self._by_id.get(node_id)

    def contains(self, key: ReplicaKey) -> bool:
        """Whether `key` is a voter: same id, and same directory id unless the set has none (kraft.version 0)."""
        voter = self._by_id.get(key.id)
        return voter is not None and (voter.key.directory_id == ZERO_UUID or voter.key.directory_id == key.directory_id)

    def is_only(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.contains(key)

    def with_voter(self, voter: Voter) -> VoterSet:
        """Return this set with `voter` added, or replacing the voter of the same id."""
        return VoterSet((*(v for v in self.voters if v.key.id != voter.key.id), voter))

    def without(self, key: ReplicaKey) -> VoterSet:
        return VoterSet(v for v in self.voters if not v.key.matches(key))

    def overlaps_majority(self, other: VoterSet) -> bool:
        """Whether every majority of this set shares a voter with every majority of `other` (thesis section 4.1). This
        is true for sets that differ in at most one member."""
        common = sum(1 for voter in self.voters if other.contains(voter.key))
        mine_only, theirs_only = len(self) - common, len(other) - common
        # A majority must use at least majority - own common members. Two majorities overlap if these numbers together
        # exceed the number of common members.
        return max(self.majority - mine_only, 0) + max(other.majority - theirs_only, 0) > common


class VoterSetHistory:
    """Every voter set and kraft.version still in the log, by the offset of its record. The newest one is in effect.
    Owned by one core."""

    __slots__ = ("_sets", "_versions")

    def __init__(self, bootstrap: VoterSet, kraft_version: int) -> None:
        self._sets: list[tuple[int, VoterSet]] = [(BOOTSTRAP_OFFSET, bootstrap)]
        self._versions: list[tuple[int, int]] = [(BOOTSTRAP_OFFSET, kraft_version)]

    @property
    def latest(self) -> VoterSet:
        return self._sets[-1][1]

    @property
    def previous(self) -> VoterSet:
        """The set that `latest` replaced, or `latest` itself if it is the only one."""
        return self._sets[-2][1] if len(self._sets) > 1 else self._sets[-1][1]

    @property
    def latest_offset(self) -> int:
        """The offset of the record with the `latest` set; BOOTSTRAP_OFFSET if it is from no record."""
        return self._sets[-1][0]

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1]

    @property
    def kraft_version_offset(self) -> int:
        return self._versions[-1][0]

    def add(self, offset: int, voters: VoterSet) -> None:
        assert offset > self._sets[-1][0], "voter sets are appended in the order of the log"
        self._sets.append((offset, voters))

    def add_version(self, offset: int, kraft_version: int) -> None:
        assert offset > self._versions[-1][0], "versions are appended in the order of the log"
        self._versions.append((offset, kraft_version))

    def truncate_to(self, end_offset: int) -> None:
        """Remove the sets and versions of records at or after `end_offset`."""
        while self._sets[-1][0] >= end_offset and len(self._sets) > 1:
            self._sets.pop()
        while self._versions[-1][0] >= end_offset and len(self._versions) > 1:
            self._versions.pop()

    def reset_to_snapshot(self, end_offset: int, voters: VoterSet, kraft_version: int) -> None:
        """Replace the history by the voters of the snapshot with which the log now starts."""
        self._sets = [(end_offset - 1, voters)]
        self._versions = [(end_offset - 1, kraft_version)]

    def at(self, end_offset: int) -> tuple[VoterSet, int]:
        """Return the voters and kraft.version at the end of the log prefix up to `end_offset`. A snapshot of that
        prefix must contain them."""
        voters = next(voters for offset, voters in reversed(self._sets) if offset < end_offset)
        return voters, next(version for offset, version in reversed(self._versions) if offset < end_offset)
