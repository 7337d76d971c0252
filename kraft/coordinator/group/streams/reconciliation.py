"""One member's next step towards the target assignment: revoke, then adopt the epoch, then get the free tasks.

Pure: from the member and its target to the member after the step. An active task has one owner in the group. A process
has a task at most once, because its members share the state on disk. If the target makes a member's standby task
active, the member keeps the standby task until it gets the active one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kraft.common.errors import ApiError
from kraft.coordinator.group.streams.member import MemberState, StreamsMember
from kraft.coordinator.group.streams.streams_group import NOBODY, Holders
from kraft.coordinator.group.streams.tasks import (
    NOTHING_HELD,
    HeldTasks,
    Task,
    TaskSet,
    by_subtopology,
    epochs_by_subtopology,
    tasks_of,
)
from kraft.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The target state of a member. `reported` is what the member says it owns, None if it did not say. `holders` says
    which processes have each task."""

    target: TaskSet
    target_epoch: int
    reported: TaskSet | None
    holders: Holders

    def next(self, member: StreamsMember) -> StreamsMember:
        """The member after the step that is possible now; itself if there is none. Raises ApiError."""
        if member.state is MemberState.STABLE:
            return member if member.member_epoch == self.target_epoch else self._step(member, member.member_epoch)
        if member.state is MemberState.UNREVOKED_TASKS:
            if self._still_has(member.revoking):
                return member
            return self._step(member, member.member_epoch + 1)
        if member.state is MemberState.UNRELEASED_TASKS:
            return self._step(member, member.member_epoch)
        if self.reported is None or not self.reported.is_empty:
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
            )
        return self._step(member, self.target_epoch)

    def _still_has(self, revoked: HeldTasks) -> bool:
        """Whether the member may still own any of these tasks. It does unless it reports otherwise."""
        if self.reported is None:
            return not revoked.is_empty
        return not (
            _tasks(self.reported.active).isdisjoint(tasks_of(revoked.active))
            and _tasks(self.reported.standby).isdisjoint(tasks_of(revoked.standby))
            and _tasks(self.reported.warmup).isdisjoint(tasks_of(revoked.warmup))
        )

    def _step(self, member: StreamsMember, revoking_epoch: int) -> StreamsMember:
        """The next assignment of the member. `revoking_epoch` is its epoch if it must revoke tasks first."""
        held = _Held(member)
        wanted_active, wanted_standby, wanted_warmup = (_tasks(tasks) for tasks in self.target)
        kept_active = {task: epoch for task, epoch in held.active.items() if task in wanted_active}
        kept_standby, kept_warmup = held.standby & wanted_standby, held.warmup & wanted_warmup
        surplus_active = {task: epoch for task, epoch in held.active.items() if task not in wanted_active}
        # A copy whose role changes is kept.
        surplus_standby = held.standby - wanted_standby - wanted_active
        surplus_warmup = held.warmup - wanted_warmup - wanted_active
        missing = (wanted_active - kept_active.keys(), wanted_standby - kept_standby, wanted_warmup - kept_warmup)
        free_active = {task for task in missing[0] if self._is_free_for_active(held, task)}  # unordered: a set
        free_standby = {task for task in missing[1] if self._is_free_for_standby(held, task)}  # unordered: a set
        free_warmup = {task for task in missing[2] if self._is_free_for_warmup(held, task)}  # unordered: a set
        must_wait = len(free_active) + len(free_standby) + len(free_warmup) < sum(len(each) for each in missing)
        kept_standby |= free_standby & (held.active.keys() | held.warmup)
        kept_warmup |= free_warmup & held.standby
        surplus_warmup -= free_standby
        surplus_standby -= free_warmup
        surplus = HeldTasks(
            epochs_by_subtopology(surplus_active), by_subtopology(surplus_standby), by_subtopology(surplus_warmup)
        )
        must_revoke = self._still_has(surplus)
        # A copy that becomes active is kept until the active task is granted.
        promoted = wanted_active if must_revoke else wanted_active - free_active
        kept_standby |= held.standby & promoted
        kept_warmup |= held.warmup & promoted
        if must_revoke:
            kept = HeldTasks(
                epochs_by_subtopology(kept_active), by_subtopology(kept_standby), by_subtopology(kept_warmup)
            )
            return _moved(member, MemberState.UNREVOKED_TASKS, revoking_epoch, kept, surplus)
        assigned = HeldTasks(
            epochs_by_subtopology({**kept_active, **dict.fromkeys(sorted(free_active), self.target_epoch)}),
            by_subtopology(kept_standby | free_standby),
            by_subtopology(kept_warmup | free_warmup),
        )
        state = MemberState.UNRELEASED_TASKS if must_wait else MemberState.STABLE
        return _moved(member, state, self.target_epoch, assigned, NOTHING_HELD)

    def _is_free_for_active(self, held: _Held, task: Task) -> bool:
        return (
            task not in self.holders.active
            and not self._has_copy_beside(held, self.holders.standby, held.standby, task)
            and not self._has_copy_beside(held, self.holders.warmup, held.warmup, task)
        )

    def _is_free_for_standby(self, held: _Held, task: Task) -> bool:
        runs_beside = self.holders.active.get(task) == held.process_id and task not in held.active
        return (
            not runs_beside
            and held.process_id not in self.holders.standby.get(task, NOBODY)
            and not self._has_copy_beside(held, self.holders.warmup, held.warmup, task)
        )

    def _is_free_for_warmup(self, held: _Held, task: Task) -> bool:
        return (
            self.holders.active.get(task) != held.process_id
            and not self._has_copy_beside(held, self.holders.standby, held.standby, task)
            and held.process_id not in self.holders.warmup.get(task, NOBODY)
        )

    def _has_copy_beside(
        self, held: _Held, holders: Mapping[Task, frozenset[str]], own: frozenset[Task], task: Task
    ) -> bool:
        """Whether another member of the same process has this copy of the task."""
        return task not in own and held.process_id in holders.get(task, NOBODY)


class _Held:
    """A member's assigned tasks, one by one."""

    def __init__(self, member: StreamsMember) -> None:
        self.process_id = member.process_id
        self.active = {
            (subtopology, partition): epoch
            for subtopology, epochs in member.assigned.active.items()
            for partition, epoch in epochs.items()
        }
        self.standby = _tasks(member.assigned.standby)
        self.warmup = _tasks(member.assigned.warmup)


def _tasks(tasks: Mapping[str, frozenset[int]]) -> frozenset[Task]:
    return frozenset(tasks_of(tasks))


def _moved(
    member: StreamsMember, state: MemberState, epoch: int, assigned: HeldTasks, revoking: HeldTasks
) -> StreamsMember:
    return replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_epoch=member.member_epoch,
        assigned=assigned,
        revoking=revoking,
    )
