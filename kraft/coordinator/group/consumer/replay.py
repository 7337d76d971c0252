"""Applies records to consumer groups. The only code that changes their durable state, for new records and loaded ones
alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex, less
from kraft.coordinator.group.consumer.member import (
    JOINING_EPOCH,
    NO_PREVIOUS_EPOCH,
    NOTHING_OWNED,
    ConsumerMember,
    MemberState,
)
from kraft.coordinator.group.consumer.records import ConsumerRecord, classic_membership, owned_of, partitions_of
from kraft.coordinator.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey as CurrentAssignmentKey,
)
from kraft.coordinator.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue as CurrentAssignmentValue,
)
from kraft.coordinator.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kraft.coordinator.records.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kraft.coordinator.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kraft.coordinator.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kraft.coordinator.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kraft.coordinator.records.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kraft.coordinator.records.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey as TargetMemberKey,
)
from kraft.coordinator.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue as TargetMemberValue,
)
from kraft.coordinator.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey as TargetMetadataKey,
)
from kraft.coordinator.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue as TargetMetadataValue,
)


def replay(group: ConsumerGroup | None, group_id: str, record: ConsumerRecord) -> ConsumerGroup | None:
    """The group after one record; None if it does not exist. A value creates a missing group, because the records of a
    compacted log come in any order. A tombstone does not."""
    key, value = record
    if value is None:
        return None if group is None else _TOMBSTONES[type(key)](group, key)
    return _VALUES[type(key)](ConsumerGroup(group_id=group_id) if group is None else group, key, value)


def _group_metadata(group: ConsumerGroup, _: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue) -> Any:
    return replace(group, group_epoch=value.epoch, metadata_hash=value.metadata_hash)


def _member_metadata(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue
) -> ConsumerGroup:
    member = group.members.get(key.member_id) or ConsumerMember(member_id=key.member_id)
    return group.with_member(
        replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=classic_membership(value.classic_member_metadata),
        )
    )


def _target_metadata(group: ConsumerGroup, _: TargetMetadataKey, value: TargetMetadataValue) -> ConsumerGroup:
    return replace(group, assignment_epoch=value.assignment_epoch, assignment_timestamp_ms=value.assignment_timestamp)


def _target_member(group: ConsumerGroup, key: TargetMemberKey, value: TargetMemberValue) -> ConsumerGroup:
    target = partitions_of(value.topic_partitions)
    targets = group.targets.set(key.member_id, target) if target else less(group.targets, key.member_id)
    return replace(group, targets=targets)


def _current_assignment(
    group: ConsumerGroup, key: CurrentAssignmentKey, value: CurrentAssignmentValue
) -> ConsumerGroup:
    member = group.members.get(key.member_id) or ConsumerMember(member_id=key.member_id)
    return group.with_member(
        replace(
            member,
            member_epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=owned_of(value.assigned_partitions, value.member_epoch),
            revoking=owned_of(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _regular_expression(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue
) -> ConsumerGroup:
    resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    return replace(group, regexes=group.regexes.set(key.regular_expression, resolved))


def _no_group(group: ConsumerGroup, _: Any) -> None:
    return None


def _no_member(group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey) -> ConsumerGroup:
    return group.without_member(key.member_id)


def _no_targets(group: ConsumerGroup, _: Any) -> ConsumerGroup:
    return replace(group, assignment_epoch=0, assignment_timestamp_ms=0)


def _no_target(group: ConsumerGroup, key: TargetMemberKey) -> ConsumerGroup:
    return replace(group, targets=less(group.targets, key.member_id))


def _no_current_assignment(group: ConsumerGroup, key: CurrentAssignmentKey) -> ConsumerGroup:
    member = group.members.get(key.member_id)
    if member is None:
        return group
    return group.with_member(
        replace(
            member,
            member_epoch=JOINING_EPOCH,
            previous_epoch=NO_PREVIOUS_EPOCH,
            state=MemberState.STABLE,
            assigned=NOTHING_OWNED,
            revoking=NOTHING_OWNED,
        )
    )


def _no_regular_expression(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey) -> ConsumerGroup:
    return replace(group, regexes=less(group.regexes, key.regular_expression))


_VALUES: dict[type, Callable[[ConsumerGroup, Any, Any], ConsumerGroup]] = {
    ConsumerGroupMetadataKey: _group_metadata,
    ConsumerGroupMemberMetadataKey: _member_metadata,
    TargetMetadataKey: _target_metadata,
    TargetMemberKey: _target_member,
    CurrentAssignmentKey: _current_assignment,
    ConsumerGroupRegularExpressionKey: _regular_expression,
}
_TOMBSTONES: dict[type, Callable[[ConsumerGroup, Any], ConsumerGroup | None]] = {
    ConsumerGroupMetadataKey: _no_group,
    ConsumerGroupMemberMetadataKey: _no_member,
    TargetMetadataKey: _no_targets,
    TargetMemberKey: _no_target,
    CurrentAssignmentKey: _no_current_assignment,
    ConsumerGroupRegularExpressionKey: _no_regular_expression,
}
