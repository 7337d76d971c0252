"""ConsumerGroupDescribe (versions 0-1): members, their assignments and their targets. Read only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.member import ConsumerMember
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kraft.world.steps import Steps

CONSUMER_TYPE: Final = "consumer"
CLASSIC_MEMBER_TYPE: Final = 0
CONSUMER_MEMBER_TYPE: Final = 1


def describe_consumer_group(
    group: ConsumerGroup, topics: TopicDirectory, default_assignor: str
) -> Steps[DescribedGroup]:
    """Describe the group. Deleted topics are left out. Yields after each member."""
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor(default_assignor),
    )
    for member in group.members_in_order():
        described.members.append(_member(group, member, topics))
        yield None
    return described


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicDirectory) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or "",
        assignment=_assignment(_owned_partitions(member), topics),
        target_assignment=_assignment(group.target_of(member.member_id), topics),
        member_type=CONSUMER_MEMBER_TYPE if member.classic is None else CLASSIC_MEMBER_TYPE,
    )


def _owned_partitions(member: ConsumerMember) -> Mapping[bytes, Iterable[int]]:
    """The partitions that the member has, including those it has yet to revoke."""
    return {
        topic_id: member.assigned.get(topic_id, {}).keys() | member.revoking.get(topic_id, {}).keys()
        for topic_id in {**member.assigned, **member.revoking}
    }


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: TopicDirectory) -> Assignment:
    named = [(topics.topic_name(topic_id), topic_id) for topic_id in partitions]
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id]))
            for name, topic_id in sorted((name, topic_id) for name, topic_id in named if name is not None)
        ]
    )
