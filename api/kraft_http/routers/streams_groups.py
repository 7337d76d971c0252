"""Streams groups (KIP-1071): their topology, members and tasks. Offsets and lag, reset and deletion are those of
consumer groups."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AfterValidator

from kraft.admin.groups import list_groups
from kraft.admin.streams_groups import (
    STREAMS,
    InternalTopic,
    StreamsGroup,
    StreamsMember,
    StreamsTasks,
    describe_streams_group,
    describe_streams_groups,
)
from kraft_http.models.common import Relationship, ResourceMetadata
from kraft_http.models.streams_groups import (
    InternalTopicData,
    StreamsGroupData,
    StreamsGroupDataList,
    StreamsGroupMemberData,
    StreamsGroupMemberDataList,
    StreamsTasksData,
    SubtopologyData,
)
from kraft_http.requests.deps import Cluster, ClusterContext, PageQuery, unanswered, whole
from kraft_http.requests.errors import documented
from kraft_http.requests.links import restore_slashes
from kraft_http.routers.group_parts import GroupFilterQuery, describe_page, state_name

router = APIRouter(prefix="/v3/clusters/{cluster_id}/streams-groups", tags=["Streams groups"])


StreamsGroupIdPath = Annotated[
    str, Path(description="Id of the streams group. Encode slashes as %2F."), AfterValidator(restore_slashes)
]


@router.get("", summary="List streams groups", responses=documented(404))
async def list_streams_groups(
    cluster: Cluster,
    wanted: GroupFilterQuery,
    page: PageQuery,
) -> StreamsGroupDataList:
    listed = [
        group
        for group in await list_groups(cluster.kafka, partial=True)
        if group.type.lower() == STREAMS and wanted.matches(group)
    ]

    async def describe(ids: list[str], coordinator: int) -> list[StreamsGroup]:
        found, _ = await describe_streams_groups(cluster.kafka, ids, coordinator)
        return list(found.values())

    described, metadata = await describe_page(cluster, page, listed, describe)
    return StreamsGroupDataList(
        kind="KafkaStreamsGroupList",
        metadata=metadata,
        data=[_group_data(cluster, group) for group in described],
        unanswered_brokers=unanswered(cluster.kafka),
    )


@router.get("/{group_id}", summary="Describe a streams group and its topology", responses=documented(404, 501))
async def get_streams_group(cluster: Cluster, group_id: StreamsGroupIdPath) -> StreamsGroupData:
    return _group_data(cluster, await describe_streams_group(cluster.kafka, group_id))


@router.get(
    "/{group_id}/members", summary="List a streams group's members and their tasks", responses=documented(404, 501)
)
async def list_members(cluster: Cluster, group_id: StreamsGroupIdPath) -> StreamsGroupMemberDataList:
    group = await describe_streams_group(cluster.kafka, group_id)
    return StreamsGroupMemberDataList(
        kind="KafkaStreamsGroupMemberList",
        metadata=whole(cluster.url),
        data=[_member_data(cluster, group_id, member) for member in group.members],
    )


def _group_data(cluster: ClusterContext, group: StreamsGroup) -> StreamsGroupData:
    links, group_id = cluster.links, group.group_id
    return StreamsGroupData(
        kind="KafkaStreamsGroup",
        metadata=ResourceMetadata(
            self=links.to("streams-groups", group_id), resource_name=links.name(f"streams-group={group_id}")
        ),
        cluster_id=cluster.cluster_id,
        streams_group_id=group_id,
        state=state_name(group.state),
        assignor=group.assignor,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology_epoch=group.topology_epoch,
        member_count=len(group.members),
        subtopologies=[
            SubtopologyData(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                repartition_source_topics=[_topic_data(topic) for topic in each.repartition_sources],
                repartition_sink_topics=list(each.repartition_sinks),
                changelog_topics=[_topic_data(topic) for topic in each.changelogs],
            )
            for each in group.subtopologies
        ],
        coordinator=Relationship(related=links.to("brokers", group.coordinator)),
        members=Relationship(related=links.to("streams-groups", group_id, "members")),
        consumer_group=Relationship(related=links.to("consumer-groups", group_id)),
    )


def _topic_data(topic: InternalTopic) -> InternalTopicData:
    return InternalTopicData(
        topic_name=topic.name,
        partitions_count=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=dict(topic.configs),
    )


def _member_data(cluster: ClusterContext, group_id: str, member: StreamsMember) -> StreamsGroupMemberData:
    return StreamsGroupMemberData(
        kind="KafkaStreamsGroupMember",
        metadata=ResourceMetadata(
            self=cluster.links.to("streams-groups", group_id, "members"),
            resource_name=cluster.links.name(f"streams-group={group_id}", f"member={member.member_id}"),
        ),
        cluster_id=cluster.cluster_id,
        streams_group_id=group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        rack_id=member.rack_id,
        process_id=member.process_id,
        endpoint=member.endpoint,
        client_tags=dict(member.tags),
        member_epoch=member.epoch,
        topology_epoch=member.topology_epoch,
        tasks=_tasks_data(member.tasks),
        target_tasks=_tasks_data(member.target),
    )


def _tasks_data(tasks: StreamsTasks) -> StreamsTasksData:
    return StreamsTasksData(
        active=[str(task) for task in tasks.active],
        standby=[str(task) for task in tasks.standby],
        warmup=[str(task) for task in tasks.warmup],
    )
