"""When a target assignment of a streams group is due, its computation, and how it is adopted.

A small group's target is computed in the heartbeat that finds it due. A large group's would block the loop for too
long, so the heartbeat requests a job (`ComputeStreamsTarget`). The job takes the group (`snapshot`), computes in a
thread (`compute`), and passes on the result (`adopt_target`). Members keep the previous target meanwhile.

The result is dropped if the group has changed since the snapshot. The next heartbeat requests another job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from immutables import Map

from kraft.coordinator.group.assignment_interval import may_assign
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.streams import records, sticky_assignor
from kraft.coordinator.group.streams.configured_topology import ConfiguredTopology
from kraft.coordinator.group.streams.sticky_assignor import AssignedMember, TaskCount
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.coordinator.group.streams.tasks import NOTHING_WANTED, TaskSet
from kraft.coordinator.shard import LogRecord

STANDBY_COUNT = "num.standby.replicas"
RACK_AWARE_TAGS = "rack.aware.assignment.tags"
INLINE_TASKS_MAX: Final = 300
"""Limit of members plus tasks (with standby tasks) of a group whose target is computed in the heartbeat. At the limit
that takes a few milliseconds."""


@dataclass(frozen=True, slots=True)
class ComputeStreamsTarget:
    """An effect: compute the group's target in a job, and pass it to `adopt_target`."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ComputedStreamsTarget:
    """The targets computed for the snapshot `group`, and the records that store them."""

    group: StreamsGroup
    targets: Map[str, TaskSet]
    records: Sequence[LogRecord]


# In a heartbeat.


def assignment_configs(draft: GroupDraft, group_id: str) -> tuple[tuple[str, str], ...]:
    """The settings that an assignment depends on, under Kafka's names, sorted. A group whose settings differ from those
    of its last assignment gets a new one."""
    settings = draft.streams_configs.settings_of(group_id)
    found = [(STANDBY_COUNT, str(settings.standby_count))]
    if settings.rack_aware_tags:
        found.append((RACK_AWARE_TAGS, ",".join(settings.rack_aware_tags)))
    return tuple(found)


def is_due(draft: GroupDraft, group: StreamsGroup) -> bool:
    """Whether the assignment interval is over."""
    interval_ms = draft.streams_configs.settings_of(group.group_id).assignment_interval_ms
    return may_assign(group.assignment_timestamp_ms, interval_ms, draft.wall_ms)


def assign(draft: GroupDraft, group: StreamsGroup) -> StreamsGroup:
    """Compute and write the target of the group's epoch, or request a job for it if the group is large. `group` must be
    the draft's. Returns the group; unchanged if its topology has not been checked since this coordinator loaded it."""
    if group.configured is None:
        return group
    if not _is_small(group, group.configured):
        draft.effects.append(ComputeStreamsTarget(group.group_id))
        return group
    adopt_target(draft, compute(group))
    return draft.require_streams_group(group.group_id)


def _is_small(group: StreamsGroup, configured: ConfiguredTopology) -> bool:
    tasks = 0
    if configured.is_ready and configured.subtopologies is not None:
        copies = _standby_count(group)
        tasks = sum(each.task_count * (1 + copies * each.is_stateful) for each in configured.subtopologies.values())
    return len(group.members) + tasks <= INLINE_TASKS_MAX


def snapshot(draft: GroupDraft, group_id: str) -> StreamsGroup | None:
    """The group, if it has changed since its last target and nothing delays the next; else None."""
    group = draft.streams_group(group_id)
    if group is None or not group.members or group.group_epoch <= group.assignment_epoch:
        return None
    if group.configured is None or group.delay_deadline_ms is not None or not is_due(draft, group):
        return None
    return group


# In the job.


def compute(group: StreamsGroup) -> ComputedStreamsTarget:
    """Compute the target and its records. Members have no tasks while topics are missing or wrong. Pure, so it may run
    in a thread."""
    assert group.configured is not None, "the topology is checked before a target is computed"
    wanted = _targets(group, group.configured)
    found: list[LogRecord] = []
    targets = group.targets
    for member_id in sorted(group.members):
        target = wanted.get(member_id, NOTHING_WANTED)
        if targets.get(member_id) != target:
            found.append(records.target_member(group.group_id, member_id, target).encode())
            targets = targets.set(member_id, target)
    return ComputedStreamsTarget(group, targets, found)


# After the job.


def adopt_target(draft: GroupDraft, computed: ComputedStreamsTarget) -> bool:
    """Write the target, unless the group has changed since the snapshot. Replacing a static member also counts: it
    moves a target without raising the epoch."""
    before = computed.group
    group = draft.streams_group(before.group_id)
    if group is None or group.targets is not before.targets or group.static_members is not before.static_members:
        return False
    if group.group_epoch != before.group_epoch:
        return False
    draft.write_streams_replayed(replace(group, targets=computed.targets), computed.records)
    draft.write_streams(group.group_id, records.target_metadata(group.group_id, group.group_epoch, draft.wall_ms))
    return True


def _targets(group: StreamsGroup, configured: ConfiguredTopology) -> dict[str, TaskSet]:
    if not configured.is_ready or configured.subtopologies is None:
        return {}
    members = [
        AssignedMember(
            member.member_id,
            member.process_id,
            {each: frozenset(epochs) for each, epochs in member.assigned.active.items()},
            member.assigned.standby,
            group.offsets_of(member.member_id).offsets,
        )
        for member in group.members_in_order()
    ]
    counts = [
        TaskCount(each.subtopology_id, each.task_count, each.is_stateful) for each in configured.subtopologies.values()
    ]
    return sticky_assignor.assign(members, counts, _standby_count(group))


def _standby_count(group: StreamsGroup) -> int:
    return int(dict(group.assignment_configs).get(STANDBY_COUNT, "0"))
