"""StreamsGroupDescribe (versions 0-1, KIP-1071): the topology, members, their tasks and their targets. Read only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from immutables import Map

from kraft.coordinator.group.streams.configured_topology import ConfiguredSubtopology
from kraft.coordinator.group.streams.member import StreamsMember
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.coordinator.group.streams.tasks import HeldTasks, Task, TaskEpochs, Tasks, TaskSet
from kraft.coordinator.group.streams.topology import InternalTopic
from kraft.coordinator.group.streams.topology import Subtopology as DeclaredSubtopology
from kraft.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kraft.world.steps import Steps

STREAMS_TYPE: Final = "streams"
STREAMS_PROTOCOL_TYPE: Final = "streams"


def describe_streams_group(group: StreamsGroup, assignor: str) -> Steps[DescribedGroup]:
    """Describe the group. The topology has the partition counts of internal topics once all its topics were found.
    Yields after each member."""
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        assignor_name=assignor,
    )
    for member in group.members_in_order():
        described.members.append(_member(group, member))
        yield None
    return described


def _topology(group: StreamsGroup) -> Topology | None:
    configured, declared = group.configured, group.topology
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        return Topology(
            epoch=configured.epoch, subtopologies=[_subtopology(each) for each in configured.subtopologies.values()]
        )
    if declared is None:
        return None
    return Topology(epoch=declared.epoch, subtopologies=[_subtopology(each) for each in declared.subtopologies])


def _subtopology(each: ConfiguredSubtopology | DeclaredSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=each.subtopology_id,
        source_topics=sorted(each.source_topics),
        repartition_sink_topics=sorted(each.repartition_sink_topics),
        state_changelog_topics=_topics(each.state_changelog_topics),
        repartition_source_topics=_topics(each.repartition_source_topics),
    )


def _topics(topics: Sequence[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    offsets, endpoint = group.offsets_of(member.member_id), member.endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags],
        task_offsets=_offsets(offsets.offsets),
        task_end_offsets=_offsets(offsets.end_offsets),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target_of(member.member_id)),
    )


def _assignment(tasks: HeldTasks | TaskSet) -> Assignment:
    return Assignment(
        active_tasks=_ids(tasks.active), standby_tasks=_ids(tasks.standby), warmup_tasks=_ids(tasks.warmup)
    )


def _ids(tasks: Tasks | TaskEpochs) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _offsets(offsets: Map[Task, int]) -> list[TaskOffset]:
    ordered: Iterable[Task] = sorted(offsets)
    return [TaskOffset(subtopology_id=task[0], partition=task[1], offset=offsets[task]) for task in ordered]
