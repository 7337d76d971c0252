"""A member of a streams group: one stream thread of an application."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kraft.coordinator.group.consumer.member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, NO_REBALANCE_TIMEOUT
from kraft.coordinator.group.streams.tasks import NOTHING_HELD, HeldTasks

NO_TOPOLOGY_EPOCH = -1


class MemberState(IntEnum):
    """The state of a member on its way to the target assignment, as stored in its record."""

    STABLE = 1
    """The member has all tasks of its epoch."""
    UNREVOKED_TASKS = 2
    """The member still has to revoke tasks."""
    UNRELEASED_TASKS = 3
    """The member waits for tasks that other members still have to revoke."""
    UNKNOWN = 127
    """A state of a newer release."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in _KNOWN_STATES else cls.UNKNOWN


_KNOWN_STATES = frozenset(int(state) for state in MemberState)


class Endpoint(NamedTuple):
    """The address (application.server) at which other instances query the member's state stores."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """One member. `member_epoch` is LEAVING_STATIC_EPOCH for a static member that has left temporarily. A member that
    missed a response is still in `previous_epoch`. Members with the same `process_id` share state on disk. `tags` are
    the client tags, sorted by key. No other member has any of the active tasks in `assigned` and `revoking`."""

    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    assigned: HeldTasks = NOTHING_HELD
    revoking: HeldTasks = NOTHING_HELD

    def has_reached(self, assignment_epoch: int) -> bool:
        """Whether the member has completed the assignment of that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    @property
    def is_away(self) -> bool:
        return self.member_epoch == LEAVING_STATIC_EPOCH
