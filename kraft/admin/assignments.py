"""Assignments of members, as the classic protocol and ConsumerGroupDescribe write them."""

from __future__ import annotations

from kraft.common.errors import ProtocolError
from kraft.common.ids import TopicPartition
from kraft.protocol.messages.consumer_group_describe_response import Assignment
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment


def partitions_of(assignment: Assignment) -> tuple[TopicPartition, ...]:
    """The partitions of a described member, in order."""
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


def read_assignment(data: bytes | memoryview) -> tuple[TopicPartition, ...]:
    """The partitions of a consumer's assignment, in order; none for invalid bytes."""
    if len(data) < 2:
        return ()
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.VALID_VERSIONS[1])
    try:
        assignment, _ = ConsumerProtocolAssignment.decode_from(data, 2, version)
    except ProtocolError:  # Whatever a client put there is its own affair.
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, index) for topic in assignment.assigned_partitions for index in topic.partitions
        )
    )
