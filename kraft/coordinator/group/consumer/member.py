"""A member of a consumer group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from kraft.coordinator.group.classic.classic_group import Protocols

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
"""A member with this epoch leaves permanently."""
LEAVING_STATIC_EPOCH = -2
"""A static member with this epoch leaves temporarily and keeps its partitions."""
NO_PREVIOUS_EPOCH = -1
NO_REBALANCE_TIMEOUT = -1

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without partitions is absent. Never changed, only replaced."""
Owned = Mapping[bytes, Mapping[int, int]]
"""By topic id, partitions and the epoch in which the member got each. Never changed, only replaced."""

NO_PARTITIONS: Partitions = {}
NOTHING_OWNED: Owned = {}


class MemberState(IntEnum):
    """The state of a member on its way to the target assignment, as stored in its record."""

    STABLE = 0
    """The member has all partitions of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member still has to revoke partitions."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members still have to revoke."""
    UNKNOWN = 127
    """A state of a newer release."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in _KNOWN_STATES else cls.UNKNOWN


_KNOWN_STATES = frozenset(int(state) for state in MemberState)


class ClassicMembership(NamedTuple):
    """The JoinGroup data of a classic member. Such a member sends JoinGroup, SyncGroup and Heartbeat."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol(self) -> str:
        """The protocol named in the member's responses."""
        return self.protocols[0][0]

    @property
    def metadata(self) -> bytes:
        """The member's subscription. All of its protocols carry the same one."""
        return self.protocols[0][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member. `member_epoch` is LEAVING_STATIC_EPOCH for a static member that has left temporarily. A member that
    missed a response is still in `previous_epoch`. `topics` are the subscribed names; `regex` is None or empty without
    a pattern. `assigned` and `revoking` are disjoint, and no other member has any of them. `classic` is None for a
    member of the consumer protocol."""

    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_epoch: int = NO_PREVIOUS_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    classic: ClassicMembership | None = None

    def has_reached(self, assignment_epoch: int) -> bool:
        """Whether the member has completed the assignment of that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    @property
    def is_away(self) -> bool:
        return self.member_epoch == LEAVING_STATIC_EPOCH
