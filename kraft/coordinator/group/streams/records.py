"""The records of a streams group, as Kafka 4.4 writes them, and the effect of each on the group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kraft.coordinator.group.consumer.consumer_group import NEVER_ASSIGNED_MS, less
from kraft.coordinator.group.consumer.member import LEAVING_EPOCH
from kraft.coordinator.group.streams.member import Endpoint, MemberState, StreamsMember
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.coordinator.group.streams.tasks import NOTHING_HELD, HeldTasks, TaskEpochs, Tasks, TaskSet
from kraft.coordinator.group.streams.topology import topology_of_message
from kraft.coordinator.records import streams_group_current_member_assignment_value as current
from kraft.coordinator.records import streams_group_target_assignment_member_value as target
from kraft.coordinator.records.serde import encode_key, encode_value
from kraft.coordinator.records.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from kraft.coordinator.records.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from kraft.coordinator.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from kraft.coordinator.records.streams_group_member_metadata_value import Endpoint as EndpointMessage
from kraft.coordinator.records.streams_group_member_metadata_value import KeyValue, StreamsGroupMemberMetadataValue
from kraft.coordinator.records.streams_group_metadata_key import StreamsGroupMetadataKey
from kraft.coordinator.records.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
from kraft.coordinator.records.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from kraft.coordinator.records.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from kraft.coordinator.records.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from kraft.coordinator.records.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from kraft.coordinator.records.streams_group_topology_key import StreamsGroupTopologyKey
from kraft.coordinator.records.streams_group_topology_value import StreamsGroupTopologyValue
from kraft.coordinator.shard import LogRecord
from kraft.protocol.schema import Message

VALUE_VERSION: Final = 0


class StreamsRecord(NamedTuple):
    key: Message
    value: Message | None

    def encode(self) -> LogRecord:
        return encode_key(self.key), None if self.value is None else encode_value(self.value, VALUE_VERSION)


def group_metadata(group: StreamsGroup) -> StreamsRecord:
    """The record of the group's epoch and of what the epoch was raised for."""
    value = StreamsGroupMetadataValue(
        epoch=group.group_epoch,
        metadata_hash=group.metadata_hash,
        validated_topology_epoch=group.validated_epoch,
        last_assignment_configs=[LastAssignmentConfig(key=key, value=each) for key, each in group.assignment_configs],
        stored_description_topology_epoch=group.stored_description_epoch,
        failed_description_topology_epoch=group.failed_description_epoch,
    )
    return StreamsRecord(StreamsGroupMetadataKey(group_id=group.group_id), value)


def topology(group_id: str, value: StreamsGroupTopologyValue) -> StreamsRecord:
    return StreamsRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def member_metadata(group_id: str, member: StreamsMember) -> StreamsRecord:
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else EndpointMessage(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=each) for key, each in member.tags],
    )
    return StreamsRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_metadata(group_id: str, epoch: int, timestamp_ms: int) -> StreamsRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return StreamsRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_member(group_id: str, member_id: str, tasks: TaskSet) -> StreamsRecord:
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_ids(tasks.active),
        standby_tasks=_target_ids(tasks.standby),
        warmup_tasks=_target_ids(tasks.warmup),
    )
    return StreamsRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_assignment(group_id: str, member: StreamsMember) -> StreamsRecord:
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        active_tasks=_epoch_ids(member.assigned.active),
        standby_tasks=_current_ids(member.assigned.standby),
        warmup_tasks=_current_ids(member.assigned.warmup),
        active_tasks_pending_revocation=_epoch_ids(member.revoking.active),
        standby_tasks_pending_revocation=_current_ids(member.revoking.standby),
        warmup_tasks_pending_revocation=_current_ids(member.revoking.warmup),
    )
    return StreamsRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[StreamsRecord]:
    """The tombstones of a member that leaves, in Kafka's order."""
    return [
        StreamsRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        StreamsRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        StreamsRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str) -> list[StreamsRecord]:
    """The tombstones of a group without members, in Kafka's order."""
    return [
        StreamsRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        StreamsRecord(StreamsGroupMetadataKey(group_id=group_id), None),
        StreamsRecord(StreamsGroupTopologyKey(group_id=group_id), None),
    ]


def _target_ids(tasks: Tasks) -> list[target.TaskIds]:
    return [target.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _current_ids(tasks: Tasks) -> list[current.TaskIds]:
    return [current.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _epoch_ids(tasks: TaskEpochs) -> list[current.TaskIds]:
    return [
        current.TaskIds(
            subtopology_id=each,
            partitions=sorted(tasks[each]),
            assignment_epochs=[tasks[each][partition] for partition in sorted(tasks[each])],
        )
        for each in sorted(tasks)
    ]


# Replay.


def replay(group: StreamsGroup | None, group_id: str, record: StreamsRecord) -> StreamsGroup | None:
    """Return the group after the record; None once it is removed. A record other than a tombstone creates a missing
    group, because the records of a compacted log come in any order."""
    if record.value is None:
        if group is None or isinstance(record.key, StreamsGroupMetadataKey):
            return None
        return _TOMBSTONES[type(record.key)](group, record.key)
    return _VALUES[type(record.key)](group or StreamsGroup(group_id=group_id), record.key, record.value)


def _group_metadata(group: StreamsGroup, _: Any, value: StreamsGroupMetadataValue) -> StreamsGroup:
    return replace(
        group,
        group_epoch=value.epoch,
        metadata_hash=value.metadata_hash,
        validated_epoch=value.validated_topology_epoch,
        assignment_configs=tuple(sorted((each.key, each.value) for each in value.last_assignment_configs or ())),
        stored_description_epoch=value.stored_description_topology_epoch,
        failed_description_epoch=value.failed_description_topology_epoch,
    )


def _topology(group: StreamsGroup, _: Any, value: StreamsGroupTopologyValue) -> StreamsGroup:
    return replace(group, topology=topology_of_message(value), configured=None)


def _member_metadata(
    group: StreamsGroup, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue
) -> StreamsGroup:
    member = group.members.get(key.member_id) or StreamsMember(member_id=key.member_id)
    endpoint = value.user_endpoint
    return group.with_member(
        replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            tags=tuple(sorted((each.key, each.value) for each in value.client_tags)),
        )
    )


def _target_metadata(group: StreamsGroup, _: Any, value: StreamsGroupTargetAssignmentMetadataValue) -> StreamsGroup:
    return replace(group, assignment_epoch=value.assignment_epoch, assignment_timestamp_ms=value.assignment_timestamp)


def _target_member(
    group: StreamsGroup, key: StreamsGroupTargetAssignmentMemberKey, value: StreamsGroupTargetAssignmentMemberValue
) -> StreamsGroup:
    tasks = TaskSet(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))
    return replace(group, targets=group.targets.set(key.member_id, tasks))


def _current_assignment(
    group: StreamsGroup, key: StreamsGroupCurrentMemberAssignmentKey, value: StreamsGroupCurrentMemberAssignmentValue
) -> StreamsGroup:
    member = group.members.get(key.member_id) or StreamsMember(member_id=key.member_id)
    epoch = value.member_epoch
    return group.with_member(
        replace(
            member,
            member_epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=HeldTasks(
                _epochs(value.active_tasks, epoch), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)
            ),
            revoking=HeldTasks(
                _epochs(value.active_tasks_pending_revocation, epoch),
                _tasks(value.standby_tasks_pending_revocation),
                _tasks(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _tasks(ids: list[target.TaskIds] | list[current.TaskIds]) -> Tasks:
    return {each.subtopology_id: frozenset(each.partitions) for each in ids if each.partitions}


def _epochs(ids: list[current.TaskIds], member_epoch: int) -> TaskEpochs:
    """Active tasks with their epochs. A record without them has tasks that were assigned in the member's epoch."""
    found: dict[str, dict[int, int]] = {}
    for each in ids:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        if each.partitions:
            found[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return found


def _no_topology(group: StreamsGroup, _: Any) -> StreamsGroup:
    return replace(group, topology=None, configured=None)


def _no_member(group: StreamsGroup, key: StreamsGroupMemberMetadataKey) -> StreamsGroup:
    return group.without_member(key.member_id)


def _no_targets(group: StreamsGroup, _: Any) -> StreamsGroup:
    return replace(group, assignment_epoch=0, assignment_timestamp_ms=NEVER_ASSIGNED_MS)


def _no_target(group: StreamsGroup, key: StreamsGroupTargetAssignmentMemberKey) -> StreamsGroup:
    return replace(group, targets=less(group.targets, key.member_id))


def _no_current_assignment(group: StreamsGroup, key: StreamsGroupCurrentMemberAssignmentKey) -> StreamsGroup:
    member = group.members.get(key.member_id)
    if member is None:
        return group
    return group.with_member(
        replace(
            member,
            member_epoch=LEAVING_EPOCH,
            previous_epoch=LEAVING_EPOCH,
            assigned=NOTHING_HELD,
            revoking=NOTHING_HELD,
        )
    )


_VALUES: Final[dict[type[Message], Callable[[StreamsGroup, Any, Any], StreamsGroup]]] = {
    StreamsGroupMetadataKey: _group_metadata,
    StreamsGroupMemberMetadataKey: _member_metadata,
    StreamsGroupTargetAssignmentMetadataKey: _target_metadata,
    StreamsGroupTargetAssignmentMemberKey: _target_member,
    StreamsGroupCurrentMemberAssignmentKey: _current_assignment,
    StreamsGroupTopologyKey: _topology,
}
_TOMBSTONES: Final[dict[type[Message], Callable[[StreamsGroup, Any], StreamsGroup]]] = {
    StreamsGroupMemberMetadataKey: _no_member,
    StreamsGroupTargetAssignmentMetadataKey: _no_targets,
    StreamsGroupTargetAssignmentMemberKey: _no_target,
    StreamsGroupCurrentMemberAssignmentKey: _no_current_assignment,
    StreamsGroupTopologyKey: _no_topology,
}
RECORD_TYPES: Final = frozenset(key.API_KEY for key in _VALUES)
