"""When a target assignment is computed, and how it is adopted.

A small group's target is computed in the heartbeat that finds it due. A large group's would block the loop for too
long, so the heartbeat requests a job (`ComputeTarget`). The job takes a snapshot of the group (`snapshot`), computes in
a thread (`compute`), and passes on the result (`adopt_target`). Members keep the previous target meanwhile.

The result is dropped if the group has changed since the snapshot. The next heartbeat requests another job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from immutables import Map

from kraft.coordinator.group.assignment_interval import may_assign
from kraft.coordinator.group.consumer import records
from kraft.coordinator.group.consumer.consumer_group import FIRST_EPOCH, NEVER_ASSIGNED_MS, ConsumerGroup, less
from kraft.coordinator.group.consumer.member import Partitions
from kraft.coordinator.group.consumer.target import ASSIGNORS, TopicCounts, compute_target, counted_topics
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.shard import LogRecord
from kraft.world.steps import at_once

INLINE_COST_MAX: Final = 5_000
"""Limit of members times partitions of a group whose target is computed in the heartbeat. At the limit that takes a few
milliseconds."""


@dataclass(frozen=True, slots=True)
class ComputeTarget:
    """An effect: compute the group's target in a job, and pass it to `adopt_target`."""

    group_id: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The input of a target computation, except the topics: a value."""

    group: ConsumerGroup
    assignor: str


@dataclass(frozen=True, slots=True)
class ComputedTarget:
    """The targets computed for the snapshot `group`, and the records that store them."""

    group: ConsumerGroup
    targets: Map[str, Partitions]
    records: Sequence[LogRecord]


# In a heartbeat.


def assign(draft: GroupDraft, group: ConsumerGroup) -> ConsumerGroup:
    """Compute a new target assignment if one is due, or request a job for it. `group` must be the draft's. Returns the
    group."""
    if group.group_epoch <= group.assignment_epoch or (due := _snapshot_of(draft, group)) is None:
        return group
    # No member may get epoch 0, so the target of the first epoch is computed immediately.
    if group.group_epoch == FIRST_EPOCH or _is_small(draft, group):
        adopt_target(draft, compute(due, at_once(counted_topics(group, draft.topics))))
        return draft.require_consumer_group(group.group_id)
    if group.assignment_epoch < FIRST_EPOCH:
        # Members wait in an epoch in which no member has a partition.
        group = draft.write_consumer(
            group.group_id, records.target_metadata(group.group_id, group.group_epoch - 1, NEVER_ASSIGNED_MS)
        )
    draft.effects.append(ComputeTarget(group.group_id))
    return group


def snapshot(draft: GroupDraft, group_id: str) -> Snapshot | None:
    """The group, if it has changed since its last target and the assignment interval is over; else None."""
    group = draft.consumer_group(group_id)
    return None if group is None else _snapshot_of(draft, group)


def _snapshot_of(draft: GroupDraft, group: ConsumerGroup) -> Snapshot | None:
    if not group.members or group.group_epoch <= group.assignment_epoch:
        return None
    if not _may_assign(draft, group):
        return None
    assignor = group.assignor(draft.config.group_consumer_assignors[0])
    if assignor not in ASSIGNORS:  # Of a record that another release wrote.
        assignor = draft.config.group_consumer_assignors[0]
    return Snapshot(group, assignor)


def _may_assign(draft: GroupDraft, group: ConsumerGroup) -> bool:
    interval_ms = draft.consumer_configs.settings_of(group.group_id).assignment_interval_ms
    return may_assign(group.assignment_timestamp_ms, interval_ms, draft.wall_ms)


def _is_small(draft: GroupDraft, group: ConsumerGroup) -> bool:
    """Whether the target can be computed in the heartbeat. Stops counting at the limit. A topic counts as at least one
    partition."""
    left = INLINE_COST_MAX // len(group.members)
    for name in group.subscribed_topics():  # unordered: they are counted
        left -= max(1, draft.topics.partition_count(name))
        if left < 0:
            return False
    return left > 0


# In the job.


def compute(due: Snapshot, topics: TopicCounts) -> ComputedTarget:
    """Compute the target and its records. Pure, so it may run in a thread."""
    group = due.group
    found: list[LogRecord] = []
    targets = group.targets
    for member_id, target in compute_target(group, due.assignor, topics).items():
        if target != group.target_of(member_id):
            found.append(records.target_member(group.group_id, member_id, target).encode())
            targets = targets.set(member_id, target) if target else less(targets, member_id)
    return ComputedTarget(group, targets, found)


# After the job.


def adopt_target(draft: GroupDraft, computed: ComputedTarget) -> bool:
    """Write the target, unless the group has changed since the snapshot. Replacing a static member also counts: it
    moves a target without raising the epoch."""
    before = computed.group
    group = draft.consumer_group(before.group_id)
    if group is None or group.targets is not before.targets or group.static_members is not before.static_members:
        return False
    if group.group_epoch != before.group_epoch:
        return False
    draft.write_replayed(replace(group, targets=computed.targets), computed.records)
    draft.write_consumer(group.group_id, records.target_metadata(group.group_id, group.group_epoch, draft.wall_ms))
    return True
