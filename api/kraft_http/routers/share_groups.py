"""Share groups (KIP-932): list, describe, delete; members, start offsets and their reset. Bodies are those of
Confluent's API, with more members."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import AfterValidator

from kraft.admin.share_groups import (
    ShareGroup,
    ShareMember,
    ShareOffsets,
    alter_share_group_offsets,
    delete_share_group,
    delete_share_group_offsets,
    describe_share_group,
    describe_share_groups,
    list_share_groups,
    present_start_offsets,
    share_group_offsets,
)
from kraft.admin.status import RecordsInFlight, share_group_records
from kraft.common.ids import TopicPartition
from kraft_http.models.common import Relationship, ResourceMetadata
from kraft_http.models.share_groups import (
    ResetShareOffsetsBody,
    ShareGroupConsumerAssignmentData,
    ShareGroupConsumerAssignmentDataList,
    ShareGroupConsumerData,
    ShareGroupConsumerDataList,
    ShareGroupData,
    ShareGroupDataList,
    ShareGroupOffsetData,
    ShareGroupOffsetDataList,
    ShareGroupRecordsData,
    ShareGroupRecordsDataList,
    ShareOffsetResetList,
)
from kraft_http.requests.deps import Cluster, ClusterContext, PageQuery, TopicNamePath, Writable, unanswered, whole
from kraft_http.requests.errors import ApiProblem, documented, not_found
from kraft_http.requests.links import restore_slashes
from kraft_http.routers.group_lags import plan_reset
from kraft_http.routers.group_parts import (
    GroupFilterQuery,
    describe_page,
    member_of,
    new_offsets,
    shown_partitions,
    state_name,
)
from kraft_http.routers.groups import ConsumerIdPath

router = APIRouter(prefix="/v3/clusters/{cluster_id}/share-groups", tags=["Share groups"])


ShareGroupIdPath = Annotated[
    str, Path(description="Id of the share group. Encode slashes as %2F."), AfterValidator(restore_slashes)
]


@router.get("", summary="List share groups", responses=documented(404))
async def list_groups(
    cluster: Cluster,
    wanted: GroupFilterQuery,
    page: PageQuery,
) -> ShareGroupDataList:
    listed = [group for group in await list_share_groups(cluster.kafka, partial=True) if wanted.matches(group)]
    described, metadata = await describe_page(cluster, page, listed, partial(describe_share_groups, cluster.kafka))
    return ShareGroupDataList(
        kind="KafkaShareGroupList",
        metadata=metadata,
        data=[_group_data(cluster, group, None) for group in described],
        unanswered_brokers=unanswered(cluster.kafka),
    )


@router.get("/{group_id}", summary="Describe a share group", responses=documented(404, 501))
async def get_group(cluster: Cluster, group_id: ShareGroupIdPath) -> ShareGroupData:
    group = await describe_share_group(cluster.kafka, group_id)
    return _group_data(cluster, group, await share_group_offsets(cluster.kafka, group_id))


@router.delete(
    "/{group_id}",
    status_code=204,
    summary="Delete a share group without members",
    dependencies=[Writable],
    responses=documented(403, 404, 409, 501),
)
async def remove_group(cluster: Cluster, group_id: ShareGroupIdPath) -> Response:
    """Delete the group with its start offsets."""
    await delete_share_group(cluster.kafka, group_id)
    return Response(status_code=204)


@router.get("/{group_id}/consumers", summary="List a share group's members", responses=documented(404, 501))
async def list_consumers(cluster: Cluster, group_id: ShareGroupIdPath) -> ShareGroupConsumerDataList:
    group = await describe_share_group(cluster.kafka, group_id)
    data = [_consumer_data(cluster, group_id, member) for member in group.members]
    return ShareGroupConsumerDataList(kind="KafkaShareGroupConsumerList", metadata=whole(cluster.url), data=data)


@router.get(
    "/{group_id}/consumers/{consumer_id}", summary="Describe a share group's member", responses=documented(404, 501)
)
async def get_consumer(
    cluster: Cluster, group_id: ShareGroupIdPath, consumer_id: ConsumerIdPath
) -> ShareGroupConsumerData:
    return _consumer_data(cluster, group_id, await _member(cluster, group_id, consumer_id))


@router.get(
    "/{group_id}/consumers/{consumer_id}/assignments",
    summary="List the partitions of a share group's member",
    responses=documented(404, 501),
)
async def list_assignments(
    cluster: Cluster, group_id: ShareGroupIdPath, consumer_id: ConsumerIdPath
) -> ShareGroupConsumerAssignmentDataList:
    member = await _member(cluster, group_id, consumer_id)
    data = [_assignment_data(cluster, group_id, member, partition) for partition in member.assignment]
    return ShareGroupConsumerAssignmentDataList(
        kind="KafkaShareGroupConsumerAssignmentList", metadata=whole(cluster.url), data=data
    )


@router.get("/{group_id}/offsets", summary="List a share group's start offsets and lag", responses=documented(404, 501))
async def list_offsets(cluster: Cluster, group_id: ShareGroupIdPath) -> ShareGroupOffsetDataList:
    """List the partitions for which the group has a start offset, in order."""
    found = await share_group_offsets(cluster.kafka, group_id)
    data = [_offset_data(cluster, group_id, partition, each) for partition, each in found.items()]
    return ShareGroupOffsetDataList(kind="KafkaShareGroupOffsetList", metadata=whole(cluster.url), data=data)


@router.get(
    "/{group_id}/records",
    summary="List a share group's records in flight: locks and delivery counts",
    responses=documented(404, 501),
)
async def list_records(cluster: Cluster, group_id: ShareGroupIdPath) -> ShareGroupRecordsDataList:
    """List the ranges of records from the start offset to the last delivered one, of partitions from which members
    fetch. Records beyond were never delivered. A new leader has no locks of the leader before it."""
    await describe_share_group(cluster.kafka, group_id)  # Raises where there is none.
    found = await share_group_records(cluster.kafka, group_id)
    return ShareGroupRecordsDataList(
        kind="KafkaShareGroupRecordsList",
        metadata=whole(cluster.url),
        data=[] if found is None else [_records_data(cluster, group_id, each) for each in found.ranges],
        ranges_count=0 if found is None else found.ranges_count,
        unanswered_brokers=unanswered(cluster.kafka),
    )


@router.post(
    "/{group_id}/offsets:reset",
    summary="Set a share group's start offsets, or show what would change",
    dependencies=[Writable],
    responses=documented(400, 403, 404, 409, 501),
)
async def reset_offsets(
    cluster: Cluster, group_id: ShareGroupIdPath, body: ResetShareOffsetsBody
) -> ShareOffsetResetList:
    """Set start offsets. They are limited to each partition's first and next offset. Acknowledgements of records from
    the new start offset on are forgotten. With `validate_only`, the default, nothing is written. For a group with
    members the status is 409. A group that does not exist is created if topics are named."""
    present = await present_start_offsets(cluster.kafka, group_id, may_be_new=body.topics is not None)
    moves = await plan_reset(cluster.kafka, body, present)
    if not moves:
        raise not_found(f"A start offset of share group {group_id}")
    if not body.validate_only:
        await alter_share_group_offsets(cluster.kafka, group_id, new_offsets(moves))
    return ShareOffsetResetList(group_id=group_id, validate_only=body.validate_only, data=moves)


@router.delete(
    "/{group_id}/offsets/{topic_name}",
    status_code=204,
    summary="Delete a share group's start offsets of a topic",
    dependencies=[Writable],
    responses=documented(403, 404, 409, 501),
)
async def remove_offsets(cluster: Cluster, group_id: ShareGroupIdPath, topic_name: TopicNamePath) -> Response:
    """Delete the start offsets of every partition of the topic. Members that come later start as in a new group
    (share.auto.offset.reset)."""
    found = await share_group_offsets(cluster.kafka, group_id)
    if all(partition.topic != topic_name for partition in found):
        raise ApiProblem(404, f"Share group {group_id} has no start offsets for {topic_name}.")
    await delete_share_group_offsets(cluster.kafka, group_id, [topic_name])
    return Response(status_code=204)


async def _member(cluster: ClusterContext, group_id: str, consumer_id: str) -> ShareMember:
    group = await describe_share_group(cluster.kafka, group_id)
    return member_of(group.members, consumer_id, f"share group {group_id}")


def _group_data(
    cluster: ClusterContext, group: ShareGroup, with_offsets: Iterable[TopicPartition] | None
) -> ShareGroupData:
    """The body of one group. `with_offsets` are the partitions for which it has a start offset; None leaves out its
    partitions."""
    links = cluster.links
    assigned = {partition for member in group.members for partition in member.assignment}
    return ShareGroupData(
        kind="KafkaShareGroup",
        metadata=ResourceMetadata(
            self=links.to("share-groups", group.group_id), resource_name=links.name(f"share-group={group.group_id}")
        ),
        cluster_id=cluster.cluster_id,
        share_group_id=group.group_id,
        state=state_name(group.state),
        partition_assignor=group.assignor,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        consumer_count=len(group.members),
        partition_count=len(assigned),
        assigned_topic_partitions=None if with_offsets is None else shown_partitions(assigned.union(with_offsets)),
        coordinator=Relationship(related=links.to("brokers", group.coordinator)),
        consumers=Relationship(related=links.to("share-groups", group.group_id, "consumers")),
        offsets=Relationship(related=links.to("share-groups", group.group_id, "offsets")),
    )


def _consumer_data(cluster: ClusterContext, group_id: str, member: ShareMember) -> ShareGroupConsumerData:
    here = ("share-groups", group_id, "consumers", member.member_id)
    return ShareGroupConsumerData(
        kind="KafkaShareGroupConsumer",
        metadata=ResourceMetadata(
            self=cluster.links.to(*here),
            resource_name=cluster.links.name(f"share-group={group_id}", f"consumer={member.member_id}"),
        ),
        cluster_id=cluster.cluster_id,
        group_id=group_id,
        consumer_id=member.member_id,
        client_id=member.client_id,
        host=member.host,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        subscribed_topics=list(member.subscribed_topics),
        partitions_count=len(member.assignment),
        partitions=shown_partitions(member.assignment),
        assignments=Relationship(related=cluster.links.to(*here, "assignments")),
    )


def _assignment_data(
    cluster: ClusterContext, group_id: str, member: ShareMember, partition: TopicPartition
) -> ShareGroupConsumerAssignmentData:
    topic_name, partition_id = partition
    links = cluster.links
    return ShareGroupConsumerAssignmentData(
        kind="KafkaShareGroupConsumerAssignment",
        metadata=ResourceMetadata(
            self=links.to("share-groups", group_id, "consumers", member.member_id, "assignments"),
            resource_name=links.name(
                f"share-group={group_id}",
                f"consumer={member.member_id}",
                f"assignment={topic_name}",
                f"partition={partition_id}",
            ),
        ),
        cluster_id=cluster.cluster_id,
        group_id=group_id,
        consumer_id=member.member_id,
        topic_name=topic_name,
        partition_id=partition_id,
        partition=Relationship(related=links.to("topics", topic_name, "partitions", partition_id)),
    )


def _offset_data(
    cluster: ClusterContext, group_id: str, partition: TopicPartition, found: ShareOffsets
) -> ShareGroupOffsetData:
    links = cluster.links
    return ShareGroupOffsetData(
        kind="KafkaShareGroupOffset",
        metadata=ResourceMetadata(
            self=links.to("share-groups", group_id, "offsets"),
            resource_name=links.name(
                f"share-group={group_id}", f"offset={partition.topic}", f"partition={partition.partition}"
            ),
        ),
        cluster_id=cluster.cluster_id,
        group_id=group_id,
        topic_name=partition.topic,
        partition_id=partition.partition,
        start_offset=found.start_offset,
        lag=found.lag,
    )


def _records_data(cluster: ClusterContext, group_id: str, found: RecordsInFlight) -> ShareGroupRecordsData:
    topic, index = found.partition
    links = cluster.links
    return ShareGroupRecordsData.model_validate(
        {
            "kind": "KafkaShareGroupRecords",
            "metadata": ResourceMetadata(
                self=links.to("share-groups", group_id, "records"),
                resource_name=links.name(
                    f"share-group={group_id}", f"topic={topic}", f"partition={index}", f"offset={found.first}"
                ),
            ),
            "cluster_id": cluster.cluster_id,
            "group_id": group_id,
            "topic_name": topic,
            "partition_id": index,
            "first_offset": found.first,
            "last_offset": found.last,
            "state": found.state.upper(),
            "delivery_count": found.delivery_count,
            "consumer_id": found.member_id,
            "lock_ms": found.lock_ms,
        }
    )
