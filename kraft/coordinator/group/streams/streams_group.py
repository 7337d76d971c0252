"""A streams group: the state in its records, and what its coordinator keeps in memory.

A `StreamsGroup` is a value. Each change creates a new one that shares the unchanged parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from immutables import Map

from kraft.common.errors import ApiError
from kraft.coordinator.group.consumer.consumer_group import FIRST_EPOCH, NEVER_ASSIGNED_MS, RevocationDeadline, less
from kraft.coordinator.group.group_types import Groups, require_type
from kraft.coordinator.group.streams.configured_topology import ConfiguredTopology
from kraft.coordinator.group.streams.member import NO_TOPOLOGY_EPOCH, StreamsMember
from kraft.coordinator.group.streams.tasks import NOTHING_WANTED, Task, TaskSet, tasks_of
from kraft.coordinator.group.streams.topology import Topology
from kraft.protocol.error_codes import ErrorCode

NO_DESCRIPTION: Final = -1
"""The topology epoch of a description that was never stored."""
NOBODY: Final[frozenset[str]] = frozenset()


class StreamsGroupState(StrEnum):
    """The states of a streams group, as ListGroups and StreamsGroupDescribe name them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class TaskOffsets(NamedTuple):
    """The offsets of its tasks' changelogs that a member reported last, and their end offsets."""

    offsets: Map[Task, int]
    end_offsets: Map[Task, int]


NO_OFFSETS: Final = TaskOffsets(Map(), Map())


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """The processes that have each task, or have yet to revoke it. An active task has one."""

    active: Map[Task, str] = field(default_factory=Map)
    standby: Map[Task, frozenset[str]] = field(default_factory=Map)
    warmup: Map[Task, frozenset[str]] = field(default_factory=Map)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroup:
    """A streams group. `validated_epoch` is the topology epoch whose topics were all found, NO_TOPOLOGY_EPOCH for none.
    `assignment_configs` are those of the last assignment, sorted by key. A member has no entry in `targets` before its
    first assignment.

    Not durable: `configured`, the topology checked against the topics of the version `topics_seen`; `sessions`
    (deadline by member id) and `revocations`; `delay_deadline_ms` of the first assignment; `shutdown_member`, which
    requested the shutdown of the application; `endpoint_epoch`, which rises when an endpoint or its tasks change;
    `task_offsets`.
    """

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_epoch: int = NO_TOPOLOGY_EPOCH
    assignment_configs: tuple[tuple[str, str], ...] = ()
    stored_description_epoch: int = NO_DESCRIPTION
    failed_description_epoch: int = NO_DESCRIPTION
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp_ms: int = NEVER_ASSIGNED_MS
    topology: Topology | None = None
    members: Map[str, StreamsMember] = field(default_factory=Map)
    static_members: Map[str, str] = field(default_factory=Map)
    targets: Map[str, TaskSet] = field(default_factory=Map)
    holders: Holders = field(default_factory=Holders)
    configured: ConfiguredTopology | None = field(default=None, compare=False)
    topics_seen: object = field(default=None, compare=False)
    sessions: Map[str, int] = field(default_factory=Map, compare=False)
    revocations: Map[str, RevocationDeadline] = field(default_factory=Map, compare=False)
    delay_deadline_ms: int | None = field(default=None, compare=False)
    shutdown_member: str | None = field(default=None, compare=False)
    endpoint_epoch: int = field(default=0, compare=False)
    task_offsets: Map[str, TaskOffsets] = field(default_factory=Map, compare=False)

    # Questions.

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return StreamsGroupState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.has_reached(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def members_in_order(self) -> Iterator[StreamsMember]:
        return (self.members[member_id] for member_id in sorted(self.members))

    def require_member(self, member_id: str) -> StreamsMember:
        """Return the member. Raises ApiError if it is unknown."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str) -> StreamsMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def require_holder(self, instance_id: str, member_id: str) -> StreamsMember:
        """Return the static member of the instance id. Raises ApiError if it is unknown, or is not `member_id`."""
        holder = self.static_member(instance_id)
        if holder is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder.member_id != member_id:
            raise ApiError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
            )
        return holder

    def target_of(self, member_id: str) -> TaskSet:
        return self.targets.get(member_id, NOTHING_WANTED)

    def offsets_of(self, member_id: str) -> TaskOffsets:
        return self.task_offsets.get(member_id, NO_OFFSETS)

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.source_of

    # Changes.

    def with_member(self, member: StreamsMember) -> StreamsGroup:
        """The group with a member added or updated."""
        before = self.members.get(member.member_id)
        static_members = self.static_members
        if before is not None and before.instance_id not in (None, member.instance_id):
            assert before.instance_id is not None
            static_members = less(static_members, before.instance_id)
        if member.instance_id is not None and static_members.get(member.instance_id) != member.member_id:
            static_members = static_members.set(member.instance_id, member.member_id)
        return replace(
            self,
            members=self.members.set(member.member_id, member),
            static_members=static_members,
            holders=_hand_over(self.holders, before, member),
        )

    def without_member(self, member_id: str) -> StreamsGroup:
        """The group without a member, its deadlines and its offsets. Its target is removed by a record of its own."""
        before = self.members.get(member_id)
        if before is None:
            return self
        static_members = self.static_members
        if before.instance_id is not None and static_members.get(before.instance_id) == member_id:
            static_members = static_members.delete(before.instance_id)
        members = self.members.delete(member_id)
        return replace(
            self,
            members=members,
            static_members=static_members,
            holders=_hand_over(self.holders, before, None),
            sessions=less(self.sessions, member_id),
            revocations=less(self.revocations, member_id),
            task_offsets=less(self.task_offsets, member_id),
            shutdown_member=self.shutdown_member if members else None,
        )


class StreamsGroups(Groups, Protocol):
    def streams_group(self, group_id: str) -> StreamsGroup | None:
        """The streams group."""


def known_streams_group(groups: StreamsGroups, group_id: str, missing: str = "Group {} not found.") -> StreamsGroup:
    """Return the streams group. Raises ApiError(GROUP_ID_NOT_FOUND), also for a group of another type. `missing` is the
    message if there is no group with the id."""
    return require_type(groups.streams_group(group_id), groups, group_id, "streams", missing)


def _held_by(member: StreamsMember) -> tuple[object, ...]:
    return member.process_id, member.assigned, member.revoking


def _hand_over(holders: Holders, before: StreamsMember | None, after: StreamsMember | None) -> Holders:
    """The holders after a member's tasks or its process changed. In a compacted log a record of an earlier owner may be
    read after one of a later owner, so a task that another process got meanwhile stays with that process."""
    if before is not None and after is not None and _held_by(before) == _held_by(after):
        return holders
    active, standby, warmup = holders.active.mutate(), holders.standby.mutate(), holders.warmup.mutate()
    if before is not None:
        for held in (before.assigned, before.revoking):
            for task in tasks_of(held.active):
                if active.get(task) == before.process_id:
                    del active[task]
            for copies, tasks in ((standby, held.standby), (warmup, held.warmup)):
                for task in tasks_of(tasks):
                    left = copies.get(task, NOBODY) - {before.process_id}
                    if left:
                        copies[task] = left
                    elif task in copies:
                        del copies[task]
    if after is not None:
        for held in (after.assigned, after.revoking):
            for task in tasks_of(held.active):
                active[task] = after.process_id
            for copies, tasks in ((standby, held.standby), (warmup, held.warmup)):
                for task in tasks_of(tasks):
                    copies[task] = copies.get(task, NOBODY) | {after.process_id}
    return Holders(active=active.finish(), standby=standby.finish(), warmup=warmup.finish())
