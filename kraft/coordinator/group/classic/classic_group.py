"""A classic group: members that agree, generation by generation, on who consumes what (the protocol of JoinGroup,
SyncGroup, Heartbeat and LeaveGroup).

States and legal moves are `TRANSITIONS`. A group lives Empty -> PreparingRebalance (members join) ->
CompletingRebalance (the leader assigns) -> Stable, and back to PreparingRebalance whenever membership or a
subscription changes; without members it is Empty again.

A `ClassicGroup` that a shard state holds is never changed: drafts work on a `copy()`, and every change rebinds a
field to a new container instead of touching a shared one. Containers are insertion-ordered dicts: the order in which
members joined decides who leads, so it must be the same on every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from kraft.common.errors import ApiError
from kraft.coordinator.shard import Token
from kraft.protocol.error_codes import ErrorCode

V = TypeVar("V")

CONSUMER_PROTOCOL_TYPE = "consumer"
UNKNOWN_MEMBER_ID = ""
MEMBER_ID_REQUIRED_VERSION = 4
"""From this JoinGroup version on, a dynamic member first receives its id (KIP-394)."""

Protocols = tuple[tuple[str, bytes], ...]
"""A member's protocols in its order of preference, each with its metadata."""


class ClassicGroupState(StrEnum):
    """The states of a classic group, as ListGroups and DescribeGroups name them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, DEAD = ClassicGroupState

TRANSITIONS: Mapping[ClassicGroupState, tuple[ClassicGroupState, ...]] = {
    EMPTY: (PREPARING_REBALANCE,),
    PREPARING_REBALANCE: (COMPLETING_REBALANCE, EMPTY),
    COMPLETING_REBALANCE: (STABLE, PREPARING_REBALANCE),
    STABLE: (PREPARING_REBALANCE,),
    DEAD: (),
}
"""The possible next states of each state. A deleted group does not exist; Dead is only used in responses about groups
that do not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """One member.

    `awaiting_join` and `awaiting_sync` are the tokens of its parked requests. `session_deadline_ms` is None while its
    session cannot expire.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None
    is_new: bool = False
    session_deadline_ms: int | None = None

    def metadata_for(self, protocol: str | None) -> bytes:
        """The member's metadata for the group's protocol. The group never selects a protocol that a member lacks."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support the group's protocol {protocol}")

    @property
    def satisfies_heartbeat(self) -> bool:
        """Whether the member counts as alive without a heartbeat, because its request is parked. False for a new
        member: it has no id to send heartbeats with, so it is removed at its deadline."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)


class ClassicGroup:
    """One group. Read its fields freely; change them only on a draft's copy, by rebinding."""

    __slots__ = (
        "awaiting_join_count",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "join_deadline_ms",
        "leader",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "supporters",
        "sync_deadline_ms",
    )

    def __init__(
        self, group_id: str, *, state: ClassicGroupState = EMPTY, state_timestamp_ms: int = -1, generation: int = 0
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = DEAD
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = generation
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: Mapping[str, ClassicMember] = {}
        # group.instance.id -> member id, for the members that have one.
        self.static_members: Mapping[str, str] = {}
        # Protocol name -> how many members support it.
        self.supporters: Mapping[str, int] = {}
        # Member ids handed out with MEMBER_ID_REQUIRED (KIP-394) and not used yet -> deadline.
        self.pending_joins: Mapping[str, int] = {}
        # Members of this generation whose SyncGroup has not come yet.
        self.pending_syncs: Mapping[str, None] = {}
        self.awaiting_join_count = 0
        self.new_member_added = False
        self.join_deadline_ms: int | None = None
        # Set while the delay of an initial rebalance runs (group.initial.rebalance.delay.ms): the current delay and how
        # much extension is left.
        self.initial_delay_ms: int | None = None
        self.initial_remaining_ms = 0
        self.sync_deadline_ms: int | None = None
        # Topics that the members subscribe to, where the group speaks the consumer protocol and its metadata could be
        # read.
        self.subscribed_topics: frozenset[str] | None = None

    def copy(self) -> ClassicGroup:
        """A working copy that shares every container with this one."""
        other = ClassicGroup.__new__(ClassicGroup)
        for name in ClassicGroup.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    # Questions.

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def can_rebalance(self) -> bool:
        return PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def rebalance_timeout_ms(self) -> int:
        return max([0, *(member.rebalance_timeout_ms for member in self.members.values())])

    @property
    def all_members_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_joins

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be consuming the topic. A consumer group with unreadable subscriptions may be consuming
        any topic."""
        return self.uses_consumer_protocol if self.subscribed_topics is None else topic in self.subscribed_topics

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join: all of the group must share at least one."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self.supporters.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def require_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member, unless the id is unknown or a newer process took over the instance id (KIP-345)."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"group {self.group_id} has no member with group.instance.id {group_instance_id}",
                )
            if current != member_id:
                raise ApiError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"group.instance.id {group_instance_id} belongs to member {current}, not {member_id}",
                )
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has no member {member_id}")
        return member

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those all support. In a tie, the preference of the oldest member
        decides."""
        size = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if self.supporters[name] == size)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    # Changes, on a draft's copy.

    def transition_to(self, state: ClassicGroupState, wall_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"group {self.group_id} cannot go from {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = wall_ms

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first one sets the group's protocol type and becomes leader."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members = {**self.static_members, member.group_instance_id: member.member_id}
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members = {**self.members, member.member_id: member}
        self._count(member, +1)
        self.pending_joins = without(self.pending_joins, member.member_id)

    def update(self, member: ClassicMember) -> None:
        """Replace the member with the same id."""
        self._count(self.members[member.member_id], -1)
        self._count(member, +1)
        self.members = {**self.members, member.member_id: member}

    def replace(self, old_member_id: str, member: ClassicMember) -> None:
        """Replace a static member that returned with a new id. It keeps its place, including leadership."""
        assert member.group_instance_id is not None
        self._count(self.members[old_member_id], -1)
        self._count(member, +1)
        self.members = {
            (member.member_id if key == old_member_id else key): (member if key == old_member_id else other)
            for key, other in self.members.items()
        }
        if old_member_id in self.pending_syncs:
            self.pending_syncs = {**without(self.pending_syncs, old_member_id), member.member_id: None}
        self.static_members = {**self.static_members, member.group_instance_id: member.member_id}
        if self.leader == old_member_id:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Drop a member or a pending one. If it was leader, the oldest remaining member becomes leader."""
        member = self.members.get(member_id)
        if member is not None:
            self.members = without(self.members, member_id)
            self._count(member, -1)
            if member.group_instance_id is not None:
                self.static_members = without(self.static_members, member.group_instance_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins = without(self.pending_joins, member_id)
        self.pending_syncs = without(self.pending_syncs, member_id)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined in this join phase. False if no member has."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    def _count(self, member: ClassicMember, step: int) -> None:
        supporters = dict(self.supporters)
        for name in dict.fromkeys(name for name, _ in member.protocols):
            count = supporters.get(name, 0) + step
            if count:
                supporters[name] = count
            else:
                del supporters[name]
        self.supporters = supporters
        if member.awaiting_join is not None:
            self.awaiting_join_count += step


def without(mapping: Mapping[str, V], key: str) -> Mapping[str, V]:
    """The mapping without one key, in the same order. Returns the mapping itself if the key is absent."""
    return {other: value for other, value in mapping.items() if other != key} if key in mapping else mapping
