"""A consumer group: the state in its records, and the deadlines of its members.

A `ConsumerGroup` is a value. Each change creates a new one that shares the unchanged parts. Maps are iterated in key
order wherever the order is visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeVar

from immutables import Map

from kraft.common.errors import ApiError
from kraft.coordinator.group.consumer.member import NO_PARTITIONS, ConsumerMember, Owned, Partitions
from kraft.coordinator.group.group_types import Groups, require_type
from kraft.protocol.error_codes import ErrorCode

V = TypeVar("V")


FIRST_EPOCH: Final = 1
"""The epoch of a group without a subscription, and of its empty target. Neither has a record."""
NEVER_ASSIGNED_MS: Final = 0
"""The time of an empty target that was never computed."""


class ConsumerGroupState(StrEnum):
    """The states of a consumer group, as ListGroups and ConsumerGroupDescribe name them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegex(NamedTuple):
    """The topics that a pattern matched, as of the metadata offset `version` and of a wall clock time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class RevocationDeadline(NamedTuple):
    """The deadline for a member to revoke partitions. `member_epoch` is its epoch when the deadline was set."""

    deadline_ms: int
    member_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A consumer group. `subscribers` and `regex_subscribers` count the members of a topic or pattern. `owners` maps
    (topic id, index) to the member that has the partition or has yet to revoke it. A member without a target is
    assigned nothing. `classic_count` is the number of classic members; `classic_supporters` counts those that support a
    protocol.

    Not durable: `sessions` (deadline by member id), `revocations`, `joins` and `syncs` (deadlines of classic members to
    rejoin and to sync), and `topics_seen`, the version of the topics for which `metadata_hash` is known to be current.
    """

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp_ms: int = NEVER_ASSIGNED_MS
    members: Map[str, ConsumerMember] = field(default_factory=Map)
    static_members: Map[str, str] = field(default_factory=Map)
    subscribers: Map[str, int] = field(default_factory=Map)
    regex_subscribers: Map[str, int] = field(default_factory=Map)
    targets: Map[str, Partitions] = field(default_factory=Map)
    owners: Map[tuple[bytes, int], str] = field(default_factory=Map)
    regexes: Map[str, ResolvedRegex] = field(default_factory=Map)
    classic_count: int = 0
    classic_supporters: Map[str, int] = field(default_factory=Map)
    sessions: Map[str, int] = field(default_factory=Map, compare=False)
    revocations: Map[str, RevocationDeadline] = field(default_factory=Map, compare=False)
    joins: Map[str, int] = field(default_factory=Map, compare=False)
    syncs: Map[str, int] = field(default_factory=Map, compare=False)
    topics_seen: object = field(default=None, compare=False)

    # Questions.

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        epoch = self.assignment_epoch
        if all(member.has_reached(epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def members_in_order(self) -> Iterator[ConsumerMember]:
        return (self.members[member_id] for member_id in sorted(self.members))

    def require_member(self, member_id: str) -> ConsumerMember:
        """Return the member. Raises ApiError if it is unknown."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def require_holder(self, instance_id: str, member_id: str | None) -> ConsumerMember:
        """Return the static member of the instance id. Raises ApiError if it is unknown, or is not `member_id` (None:
        any)."""
        holder = self.static_member(instance_id)
        if holder is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member_id is not None and holder.member_id != member_id:
            raise ApiError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
            )
        return holder

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topic names that the member subscribes to, including those that its pattern matched."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed_topics(self) -> set[str]:
        """All topics that a member subscribes to, existing or not."""
        topics = set(self.subscribers)
        for resolved in self.regexes.values():  # unordered: their union is taken
            topics |= resolved.topics
        return topics

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribers or any(topic in resolved.topics for resolved in self.regexes.values())

    def supports_classic(self, protocols: Iterable[str]) -> bool:
        """Whether all classic members support one of these protocols."""
        return any(self.classic_supporters.get(name, 0) == self.classic_count for name in protocols)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still owns a partition of this member's target."""
        return any(
            partition not in member.assigned.get(topic_id, {}) and (topic_id, partition) in self.owners
            for topic_id, partitions in self.target_of(member.member_id).items()
            for partition in partitions
        )

    def assignor(self, default: str) -> str:
        """The assignor that most members request; in a tie, the first by name."""
        votes: dict[str, int] = {}
        for member in self.members.values():  # unordered: they are counted
            if member.assignor is not None:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        return min(votes, key=lambda name: (-votes[name], name)) if votes else default

    # Changes.

    def with_member(self, member: ConsumerMember) -> ConsumerGroup:
        """The group with a member added or updated."""
        before = self.members.get(member.member_id)
        static_members = self.static_members
        if member.instance_id is not None and static_members.get(member.instance_id) != member.member_id:
            static_members = static_members.set(member.instance_id, member.member_id)
        return replace(
            self,
            members=self.members.set(member.member_id, member),
            static_members=static_members,
            subscribers=_recount(self.subscribers, _topics(before), member.topics),
            regex_subscribers=_recount(self.regex_subscribers, _regexes(before), _regexes(member)),
            classic_count=self.classic_count + _is_classic(member) - _is_classic(before),
            classic_supporters=_recount(self.classic_supporters, _protocols(before), _protocols(member)),
            owners=_hand_over(self.owners, before, member),
        )

    def without_member(self, member_id: str) -> ConsumerGroup:
        """The group without a member and its deadlines. Its target is removed by a record of its own."""
        before = self.members.get(member_id)
        if before is None:
            return self
        static_members = self.static_members
        if before.instance_id is not None and static_members.get(before.instance_id) == member_id:
            static_members = static_members.delete(before.instance_id)
        return replace(
            self,
            members=self.members.delete(member_id),
            static_members=static_members,
            subscribers=_recount(self.subscribers, before.topics, frozenset()),
            regex_subscribers=_recount(self.regex_subscribers, _regexes(before), frozenset()),
            classic_count=self.classic_count - _is_classic(before),
            classic_supporters=_recount(self.classic_supporters, _protocols(before), frozenset()),
            owners=_hand_over(self.owners, before, None),
            sessions=less(self.sessions, member_id),
            revocations=less(self.revocations, member_id),
            joins=less(self.joins, member_id),
            syncs=less(self.syncs, member_id),
        )


class ConsumerGroups(Groups, Protocol):
    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group."""


def known_consumer_group(groups: ConsumerGroups, group_id: str, missing: str = "Group {} not found.") -> ConsumerGroup:
    """Return the consumer group. Raises ApiError(GROUP_ID_NOT_FOUND), also for a group of another type. `missing` is
    the message if there is no group with the id."""
    return require_type(groups.consumer_group(group_id), groups, group_id, "consumer", missing)


def less(mapping: Map[str, V], key: str) -> Map[str, V]:
    """The mapping without one key, which may be absent."""
    return mapping.delete(key) if key in mapping else mapping


def _topics(member: ConsumerMember | None) -> frozenset[str]:
    return frozenset() if member is None else member.topics


def _regexes(member: ConsumerMember | None) -> frozenset[str]:
    return frozenset() if member is None or not member.regex else frozenset((member.regex,))


def _is_classic(member: ConsumerMember | None) -> bool:
    return member is not None and member.classic is not None


def _protocols(member: ConsumerMember | None) -> frozenset[str]:
    if member is None or member.classic is None:
        return frozenset()
    return frozenset(name for name, _ in member.classic.protocols)


def _recount(counts: Map[str, int], before: frozenset[str], after: frozenset[str]) -> Map[str, int]:
    if before == after:
        return counts
    draft = counts.mutate()
    for name in before - after:  # unordered: each has a count of its own
        left = draft[name] - 1
        if left:
            draft[name] = left
        else:
            del draft[name]
    for name in after - before:  # unordered: likewise
        draft[name] = draft.get(name, 0) + 1
    return draft.finish()


def _hand_over(
    owners: Map[tuple[bytes, int], str], before: ConsumerMember | None, after: ConsumerMember | None
) -> Map[tuple[bytes, int], str]:
    """The owners after a member's partitions changed. In a compacted log a record of an earlier owner may be read after
    one of a later owner, so a partition that was assigned to another member meanwhile stays with that member."""
    if (
        before is not None
        and after is not None
        and before.assigned is after.assigned
        and before.revoking is after.revoking
    ):
        return owners
    owned_before, owned_after = _owned_keys(before), _owned_keys(after)
    draft = owners.mutate()
    if before is not None:
        for key in owned_before - owned_after:
            if draft.get(key) == before.member_id:
                del draft[key]
    if after is not None:
        for key in owned_after - owned_before:
            draft[key] = after.member_id
    return draft.finish()


def _owned_keys(member: ConsumerMember | None) -> set[tuple[bytes, int]]:
    if member is None:
        return set()
    return {key for owned in (member.assigned, member.revoking) for key in _keys(owned)}


def _keys(owned: Owned | Mapping[bytes, frozenset[int]]) -> Iterator[tuple[bytes, int]]:
    for topic_id, partitions in owned.items():
        for partition in partitions:
            yield topic_id, partition
