"""The records of a share group, as Kafka 4.4 writes them, and the effect of each on the group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from immutables import Map

from kraft.coordinator.group.consumer.consumer_group import less
from kraft.coordinator.group.consumer.member import NO_PREVIOUS_EPOCH, Partitions
from kraft.coordinator.group.share.share_group import JOINING_EPOCH, ShareGroup, ShareMember, StatePartitions
from kraft.coordinator.records.serde import encode_key, encode_value
from kraft.coordinator.records.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from kraft.coordinator.records.share_group_current_member_assignment_value import ShareGroupCurrentMemberAssignmentValue
from kraft.coordinator.records.share_group_current_member_assignment_value import TopicPartitions as CurrentTopic
from kraft.coordinator.records.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kraft.coordinator.records.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from kraft.coordinator.records.share_group_metadata_key import ShareGroupMetadataKey
from kraft.coordinator.records.share_group_metadata_value import ShareGroupMetadataValue
from kraft.coordinator.records.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from kraft.coordinator.records.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from kraft.coordinator.records.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from kraft.coordinator.records.share_group_target_assignment_member_value import ShareGroupTargetAssignmentMemberValue
from kraft.coordinator.records.share_group_target_assignment_member_value import TopicPartition as TargetTopic
from kraft.coordinator.records.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from kraft.coordinator.records.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)
from kraft.coordinator.shard import LogRecord
from kraft.protocol.schema import Message

VALUE_VERSION: Final = 0
STABLE_MEMBER: Final = 0


class ShareRecord(NamedTuple):
    key: Message
    value: Message | None

    def encode(self) -> LogRecord:
        return encode_key(self.key), None if self.value is None else encode_value(self.value, VALUE_VERSION)


def group_metadata(group_id: str, epoch: int, metadata_hash: int) -> ShareRecord:
    return ShareRecord(
        ShareGroupMetadataKey(group_id=group_id), ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def member_metadata(group_id: str, member: ShareMember) -> ShareRecord:
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return ShareRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_metadata(group_id: str, epoch: int, timestamp_ms: int) -> ShareRecord:
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return ShareRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_member(group_id: str, member_id: str, target: Partitions) -> ShareRecord:
    topics = [TargetTopic(topic_id=topic_id, partitions=sorted(target[topic_id])) for topic_id in sorted(target)]
    return ShareRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(topic_partitions=topics),
    )


def current_assignment(group_id: str, member: ShareMember) -> ShareRecord:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE_MEMBER,
        assigned_partitions=[
            CurrentTopic(topic_id=topic_id, partitions=sorted(member.assigned[topic_id]))
            for topic_id in sorted(member.assigned)
        ],
    )
    return ShareRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def state_partitions(
    group_id: str,
    initializing: Map[bytes, StatePartitions],
    initialized: Map[bytes, StatePartitions],
    deleting: Map[bytes, str],
) -> ShareRecord:
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(initializing),
        initialized_topics=_infos(initialized),
        deleting_topics=[TopicInfo(topic_id=topic_id, topic_name=deleting[topic_id]) for topic_id in sorted(deleting)],
    )
    return ShareRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[ShareRecord]:
    """The tombstones of a member that leaves, in Kafka's order."""
    return [
        ShareRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        ShareRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        ShareRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str) -> list[ShareRecord]:
    """The tombstones of a group without members. The last one removes it."""
    return [
        ShareRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        ShareRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        ShareRecord(ShareGroupMetadataKey(group_id=group_id), None),
    ]


def _infos(topics: Map[bytes, StatePartitions]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(
            topic_id=topic_id, topic_name=topics[topic_id].name, partitions=sorted(topics[topic_id].partitions)
        )
        for topic_id in sorted(topics)
    ]


# Replay.


def replay(group: ShareGroup | None, group_id: str, record: ShareRecord, wall_ms: int = 0) -> ShareGroup | None:
    """Return the group after the record; None once it is removed. A record other than a tombstone creates a missing
    group. `wall_ms` is the start time of partitions whose initialization begins with it."""
    if record.value is None:
        if group is None or isinstance(record.key, ShareGroupMetadataKey):
            return None
        return _TOMBSTONES[type(record.key)](group, record.key)
    after = _VALUES[type(record.key)](group or ShareGroup(group_id=group_id), record.key, record.value)
    if wall_ms and isinstance(record.key, ShareGroupStatePartitionMetadataKey):
        started = after.initializing.mutate()
        for topic_id in sorted(after.initializing):
            started[topic_id] = after.initializing[topic_id]._replace(since_ms=wall_ms)
        after = replace(after, initializing=started.finish())
    return after


def _group_metadata(group: ShareGroup, _: Any, value: ShareGroupMetadataValue) -> ShareGroup:
    return replace(group, group_epoch=value.epoch, metadata_hash=value.metadata_hash)


def _member_metadata(
    group: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue
) -> ShareGroup:
    member = group.members.get(key.member_id) or ShareMember(member_id=key.member_id)
    return group.with_member(
        replace(
            member,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )
    )


def _target_metadata(group: ShareGroup, _: Any, value: ShareGroupTargetAssignmentMetadataValue) -> ShareGroup:
    return replace(group, assignment_epoch=value.assignment_epoch, assignment_timestamp_ms=value.assignment_timestamp)


def _target_member(
    group: ShareGroup, key: ShareGroupTargetAssignmentMemberKey, value: ShareGroupTargetAssignmentMemberValue
) -> ShareGroup:
    target = {
        bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions
    }
    targets = group.targets.set(key.member_id, target) if target else less(group.targets, key.member_id)
    return replace(group, targets=targets)


def _current_assignment(
    group: ShareGroup, key: ShareGroupCurrentMemberAssignmentKey, value: ShareGroupCurrentMemberAssignmentValue
) -> ShareGroup:
    member = group.members.get(key.member_id) or ShareMember(member_id=key.member_id)
    assigned = {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.assigned_partitions}
    return group.with_member(
        replace(
            member,
            member_epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=assigned,
        )
    )


def _state_partitions(group: ShareGroup, _: Any, value: ShareGroupStatePartitionMetadataValue) -> ShareGroup:
    return replace(
        group,
        initializing=_partitions(value.initializing_topics),
        initialized=_partitions(value.initialized_topics),
        deleting=Map({bytes(topic.topic_id): topic.topic_name for topic in value.deleting_topics}),
    )


def _partitions(topics: list[TopicPartitionsInfo]) -> Map[bytes, StatePartitions]:
    return Map(
        {bytes(topic.topic_id): StatePartitions(topic.topic_name, frozenset(topic.partitions)) for topic in topics}
    )


def _no_member(group: ShareGroup, key: ShareGroupMemberMetadataKey) -> ShareGroup:
    return group.without_member(key.member_id)


def _no_targets(group: ShareGroup, _: Any) -> ShareGroup:
    return replace(group, assignment_epoch=0, assignment_timestamp_ms=0)


def _no_target(group: ShareGroup, key: ShareGroupTargetAssignmentMemberKey) -> ShareGroup:
    return replace(group, targets=less(group.targets, key.member_id))


def _no_current_assignment(group: ShareGroup, key: ShareGroupCurrentMemberAssignmentKey) -> ShareGroup:
    member = group.members.get(key.member_id)
    if member is None:
        return group
    return group.with_member(replace(member, member_epoch=JOINING_EPOCH, previous_epoch=NO_PREVIOUS_EPOCH, assigned={}))


def _no_state_partitions(group: ShareGroup, _: Any) -> ShareGroup:
    return replace(group, initializing=Map(), initialized=Map(), deleting=Map())


_VALUES: Final[dict[type[Message], Callable[[ShareGroup, Any, Any], ShareGroup]]] = {
    ShareGroupMetadataKey: _group_metadata,
    ShareGroupMemberMetadataKey: _member_metadata,
    ShareGroupTargetAssignmentMetadataKey: _target_metadata,
    ShareGroupTargetAssignmentMemberKey: _target_member,
    ShareGroupCurrentMemberAssignmentKey: _current_assignment,
    ShareGroupStatePartitionMetadataKey: _state_partitions,
}
_TOMBSTONES: Final[dict[type[Message], Callable[[ShareGroup, Any], ShareGroup]]] = {
    ShareGroupMemberMetadataKey: _no_member,
    ShareGroupTargetAssignmentMetadataKey: _no_targets,
    ShareGroupTargetAssignmentMemberKey: _no_target,
    ShareGroupCurrentMemberAssignmentKey: _no_current_assignment,
    ShareGroupStatePartitionMetadataKey: _no_state_partitions,
}
RECORD_TYPES: Final = frozenset(key.API_KEY for key in _VALUES)
