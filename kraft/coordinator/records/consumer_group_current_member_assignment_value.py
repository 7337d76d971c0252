"""ConsumerGroupCurrentMemberAssignmentValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "partitions", "assignment_epochs", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    partitions: []int32 0+
    assignment_epochs: []int32 0+ nullable=0+ tag=0@0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | tuple[int, ...] = (),
        assignment_epochs: list[int] | tuple[int, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.assignment_epochs: list[int] | None = list(assignment_epochs) if isinstance(assignment_epochs, tuple) else assignment_epochs
        self.unknown_tags = unknown_tags


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned_partitions", "partitions_pending_revocation", "unknown_tags")
    API_KEY = 8
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    member_epoch: int32 0+
    previous_member_epoch: int32 0+
    state: int8 0+
    assigned_partitions: []TopicPartitions 0+
    partitions_pending_revocation: []TopicPartitions 0+
    """

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[TopicPartitions] | tuple[TopicPartitions, ...] = (),
        partitions_pending_revocation: list[TopicPartitions] | tuple[TopicPartitions, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions: list[TopicPartitions] = list(assigned_partitions) if isinstance(assigned_partitions, tuple) else assigned_partitions
        self.partitions_pending_revocation: list[TopicPartitions] = list(partitions_pending_revocation) if isinstance(partitions_pending_revocation, tuple) else partitions_pending_revocation
        self.unknown_tags = unknown_tags
