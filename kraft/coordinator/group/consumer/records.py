"""The records of a consumer group, in the formats that Kafka 4.3 writes: a key message and a value message, or no value
for a tombstone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kraft.coordinator.group.consumer.consumer_group import ResolvedRegex
from kraft.coordinator.group.consumer.member import ClassicMembership, ConsumerMember, Owned, Partitions
from kraft.coordinator.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from kraft.coordinator.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kraft.coordinator.records.consumer_group_current_member_assignment_value import TopicPartitions as OwnedTopic
from kraft.coordinator.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kraft.coordinator.records.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from kraft.coordinator.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kraft.coordinator.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kraft.coordinator.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kraft.coordinator.records.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kraft.coordinator.records.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kraft.coordinator.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from kraft.coordinator.records.consumer_group_target_assignment_member_value import TopicPartition as TargetTopic
from kraft.coordinator.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kraft.coordinator.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kraft.coordinator.records.serde import encode_key, encode_value
from kraft.coordinator.shard import LogRecord
from kraft.protocol.schema import Message

VALUE_VERSION = 0
RECORD_TYPES = frozenset(
    key.API_KEY
    for key in (
        ConsumerGroupMetadataKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupRegularExpressionKey,
    )
)
"""The types of these records. Type 4, ConsumerGroupPartitionMetadata, is skipped: only Kafka 4.0 wrote it, and 4.1
replaced it by a hash."""


class ConsumerRecord(NamedTuple):
    key: Message
    value: Message | None

    def encode(self) -> LogRecord:
        return encode_key(self.key), None if self.value is None else encode_value(self.value, VALUE_VERSION)


def group_metadata(group_id: str, epoch: int, metadata_hash: int) -> ConsumerRecord:
    return ConsumerRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def group_tombstone(group_id: str) -> ConsumerRecord:
    return ConsumerRecord(ConsumerGroupMetadataKey(group_id=group_id), None)


def member_metadata(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=_classic_metadata(member.classic),
    )
    return ConsumerRecord(_member_key(group_id, member.member_id), value)


def _classic_metadata(classic: ClassicMembership | None) -> ClassicMemberMetadata | None:
    if classic is None:
        return None
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
    )


def classic_membership(metadata: ClassicMemberMetadata | None) -> ClassicMembership | None:
    """The classic protocol's part of a member's record; None for a member of the consumer protocol."""
    if metadata is None:
        return None
    return ClassicMembership(
        metadata.session_timeout_ms,
        tuple((protocol.name, bytes(protocol.metadata)) for protocol in metadata.supported_protocols),
    )


def member_tombstone(group_id: str, member_id: str) -> ConsumerRecord:
    return ConsumerRecord(_member_key(group_id, member_id), None)


def _member_key(group_id: str, member_id: str) -> Message:
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def target_metadata(group_id: str, epoch: int, timestamp_ms: int) -> ConsumerRecord:
    return ConsumerRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_metadata_tombstone(group_id: str) -> ConsumerRecord:
    return ConsumerRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_member(group_id: str, member_id: str, target: Partitions) -> ConsumerRecord:
    topics = [TargetTopic(topic_id=topic_id, partitions=sorted(target[topic_id])) for topic_id in sorted(target)]
    return ConsumerRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics),
    )


def target_member_tombstone(group_id: str, member_id: str) -> ConsumerRecord:
    return ConsumerRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def current_assignment(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_owned_topics(member.assigned),
        partitions_pending_revocation=_owned_topics(member.revoking),
    )
    return ConsumerRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def current_assignment_tombstone(group_id: str, member_id: str) -> ConsumerRecord:
    return ConsumerRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def regular_expression(group_id: str, regex: str, resolved: ResolvedRegex) -> ConsumerRecord:
    return ConsumerRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def regular_expression_tombstone(group_id: str, regex: str) -> ConsumerRecord:
    return ConsumerRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def _owned_topics(owned: Owned) -> list[OwnedTopic]:
    topics = []
    for topic_id in sorted(owned):
        epochs = owned[topic_id]
        partitions = sorted(epochs)
        topics.append(
            OwnedTopic(
                topic_id=topic_id,
                partitions=partitions,
                assignment_epochs=[epochs[partition] for partition in partitions],
            )
        )
    return topics


def owned_of(topics: list[OwnedTopic], member_epoch: int) -> Owned:
    """The partitions in a current assignment record. Before 4.3 the record has no partition epochs; assigned partitions
    then count as assigned in the member's epoch."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        owned[bytes(topic.topic_id)] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def partitions_of(topics: list[TargetTopic]) -> Partitions:
    return {bytes(topic.topic_id): frozenset(topic.partitions) for topic in topics if topic.partitions}
