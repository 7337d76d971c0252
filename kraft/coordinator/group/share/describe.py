"""ShareGroupDescribe (version 1, KIP-932): members and their assignments. Read only."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.group.consumer.member import Partitions
from kraft.coordinator.group.share.share_group import ShareGroup
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.protocol.messages.share_group_describe_response import Assignment, DescribedGroup, Member, TopicPartitions
from kraft.world.steps import Steps

SHARE_TYPE: Final = "share"
SHARE_PROTOCOL_TYPE: Final = "share"
ASSIGNOR: Final = "simple"


def describe_share_group(group: ShareGroup, topics: TopicDirectory) -> Steps[DescribedGroup]:
    """Describe the group. Deleted topics are left out. Yields after each member."""
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
    )
    for member in group.members_in_order():
        described.members.append(
            Member(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.member_epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topics),
                assignment=_assignment(member.assigned, topics),
            )
        )
        yield None
    return described


def _assignment(partitions: Partitions, topics: TopicDirectory) -> Assignment:
    named = [(topics.topic_name(topic_id), topic_id) for topic_id in partitions]
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id]))
            for name, topic_id in sorted((name, topic_id) for name, topic_id in named if name is not None)
        ]
    )
