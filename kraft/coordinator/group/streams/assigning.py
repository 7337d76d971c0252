"""When a target assignment of a streams group is due, and its computation."""

from __future__ import annotations

from kraft.coordinator.group.assignment_interval import may_assign
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.streams import records, sticky_assignor
from kraft.coordinator.group.streams.configured_topology import ConfiguredTopology
from kraft.coordinator.group.streams.sticky_assignor import AssignedMember, TaskCount
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.coordinator.group.streams.tasks import NOTHING_WANTED, TaskSet

STANDBY_COUNT = "num.standby.replicas"
RACK_AWARE_TAGS = "rack.aware.assignment.tags"


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


def compute_target(draft: GroupDraft, group: StreamsGroup) -> StreamsGroup:
    """Compute and write the target of the group's epoch. Members have no tasks while topics are missing or wrong.
    Returns the group; unchanged if its topology has not been checked since this coordinator loaded it."""
    if group.configured is None:
        return group
    targets = _targets(group, group.configured)
    for member_id in sorted(group.members):
        target = targets.get(member_id, NOTHING_WANTED)
        if group.targets.get(member_id) != target:
            draft.write_streams(group.group_id, records.target_member(group.group_id, member_id, target))
    return draft.write_streams(
        group.group_id, records.target_metadata(group.group_id, group.group_epoch, draft.wall_ms)
    )


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
    return sticky_assignor.assign(members, counts, int(dict(group.assignment_configs).get(STANDBY_COUNT, "0")))
