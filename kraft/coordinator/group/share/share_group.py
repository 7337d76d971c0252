"""A share group: a value. Several members may read one partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from immutables import Map

from kraft.common.errors import ApiError
from kraft.coordinator.group.consumer.consumer_group import FIRST_EPOCH, NEVER_ASSIGNED_MS, less
from kraft.coordinator.group.consumer.member import NO_PARTITIONS, NO_PREVIOUS_EPOCH, Partitions
from kraft.coordinator.group.group_types import Groups, require_type
from kraft.protocol.error_codes import ErrorCode

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
SHARE_SESSION: Final = "share session"
"""The first part of the timer key of a member's session."""
EMPTY: Final = "Empty"
STABLE: Final = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """One member. A member that missed a response is still in `previous_epoch`. `topics` are the subscribed names."""

    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_epoch: int = NO_PREVIOUS_EPOCH
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=dict)


class StatePartitions(NamedTuple):
    """Partitions of one topic whose share state exists, or is being initialized since `since_ms` (wall clock)."""

    name: str
    partitions: frozenset[int]
    since_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroup:
    """One group. `targets` are the members' target assignments of `assignment_epoch`. `initialized`, `initializing` and
    `deleting` say which partitions have a share state, by topic id. `sessions` are deadlines of members (monotonic ms),
    and are not durable; nor is `topics_seen`, the version of the topics that `metadata_hash` was last compared with."""

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp_ms: int = NEVER_ASSIGNED_MS
    members: Map[str, ShareMember] = field(default_factory=Map)
    targets: Map[str, Partitions] = field(default_factory=Map)
    initialized: Map[bytes, StatePartitions] = field(default_factory=Map)
    initializing: Map[bytes, StatePartitions] = field(default_factory=Map)
    deleting: Map[bytes, str] = field(default_factory=Map)
    sessions: Map[str, int] = field(default_factory=Map)
    topics_seen: object = None

    @property
    def state(self) -> str:
        return STABLE if self.members else EMPTY

    def members_in_order(self) -> Iterator[ShareMember]:
        for member_id in sorted(self.members):
            yield self.members[member_id]

    def subscribed_topics(self) -> frozenset[str]:
        """The names that any member subscribes to."""
        return frozenset().union(*(member.topics for member in self.members_in_order()))

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def require_member(self, member_id: str) -> ShareMember:
        """Return the member. Raises ApiError(UNKNOWN_MEMBER_ID)."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def with_member(self, member: ShareMember) -> ShareGroup:
        return replace(self, members=self.members.set(member.member_id, member))

    def without_member(self, member_id: str) -> ShareGroup:
        return replace(
            self,
            members=less(self.members, member_id),
            targets=less(self.targets, member_id),
            sessions=less(self.sessions, member_id),
        )


class ShareGroups(Groups, Protocol):
    def share_group(self, group_id: str) -> ShareGroup | None:
        """The share group."""


def known_share_group(groups: ShareGroups, group_id: str) -> ShareGroup:
    """Return the share group. Raises ApiError(GROUP_ID_NOT_FOUND), also for a group of another type."""
    return require_type(groups.share_group(group_id), groups, group_id, "share")
