"""Consumer groups: list, describe, delete; members and their assignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Response

from kraft.admin.authorized_operations import Operations, group_operations
from kraft.admin.groups import (
    CLASSIC,
    CONSUMER,
    Group,
    ListedGroup,
    Member,
    delete_group,
    describe_group,
    describe_groups,
    list_groups,
)
from kraft.admin.streams_groups import STREAMS
from kraft.common.ids import TopicPartition
from kraft_http.models.common import Relationship, ResourceMetadata
from kraft_http.models.groups import (
    ConsumerAssignmentData,
    ConsumerAssignmentDataList,
    ConsumerData,
    ConsumerDataList,
    ConsumerGroupData,
    ConsumerGroupDataList,
)
from kraft_http.node_transport import NodeTransport
from kraft_http.requests.deps import (
    Cluster,
    ClusterContext,
    GroupIdPath,
    IncludeOperations,
    PageQuery,
    PartitionIdPath,
    TopicNamePath,
    Writable,
    unanswered,
    whole,
)
from kraft_http.requests.errors import documented, not_found
from kraft_http.routers.group_parts import GroupFilterQuery, describe_page, member_of, shown_partitions, state_name

router = APIRouter(prefix="/v3/clusters/{cluster_id}/consumer-groups", tags=["Consumer groups"])

ConsumerIdPath = Annotated[str, Path(description="Id of the member.")]


@router.get("", summary="List consumer groups", responses=documented(404))
async def list_consumer_groups(
    cluster: Cluster,
    wanted: GroupFilterQuery,
    page: PageQuery,
    tells: IncludeOperations = False,
) -> ConsumerGroupDataList:
    listed = [group for group in await list_consumers_groups(cluster.kafka) if wanted.matches(group)]
    described, metadata = await describe_page(cluster, page, listed, partial(describe_groups, cluster.kafka))
    data = [group_data(cluster, group) for group in described]
    if tells:
        await _add_operations(cluster, data, {group.group_id: group for group in described})
    return ConsumerGroupDataList(
        kind="KafkaConsumerGroupList", metadata=metadata, data=data, unanswered_brokers=unanswered(cluster.kafka)
    )


async def list_consumers_groups(kafka: NodeTransport) -> list[ListedGroup]:
    """The groups of consumers, sorted by id. `kafka.silent` has the brokers that did not list theirs. Raises
    Refused."""
    return [group for group in await list_groups(kafka, partial=True) if is_of_consumers(group)]


def is_of_consumers(group: ListedGroup) -> bool:
    """Whether it has consumers that commit offsets, as classic groups of consumers, consumer groups and streams groups
    have, and not Connect's workers, for example."""
    return group.protocol_type in ("consumer", STREAMS, "")


@router.get("/{consumer_group_id}", summary="Describe a consumer group", responses=documented(404))
async def get_consumer_group(
    cluster: Cluster, group_id: GroupIdPath, tells: IncludeOperations = False
) -> ConsumerGroupData:
    group = await describe_group(cluster.kafka, group_id)
    data = group_data(cluster, group)
    if tells:
        await _add_operations(cluster, [data], {group_id: group})
    return data


async def _add_operations(
    cluster: ClusterContext, shown: Sequence[ConsumerGroupData], groups: Mapping[str, Group]
) -> None:
    """Add the authorized operations, with one request to each coordinator. Groups of a coordinator that does not answer
    get none."""
    by_coordinator: dict[int, list[str]] = {}
    for each in shown:
        by_coordinator.setdefault(groups[each.consumer_group_id].coordinator, []).append(each.consumer_group_id)

    async def ask(coordinator: int) -> dict[str, Operations]:
        return await group_operations(cluster.kafka, by_coordinator[coordinator], coordinator)

    told = await cluster.kafka.ask_brokers(ask, sorted(by_coordinator))
    operations = {group_id: found for answer in told for group_id, found in answer.items()}
    for each in shown:
        each.authorized_operations = list(operations.get(each.consumer_group_id, ()))


@router.delete(
    "/{consumer_group_id}",
    status_code=204,
    summary="Delete a group without members",
    dependencies=[Writable],
    responses=documented(403, 404, 409),
)
async def remove_consumer_group(cluster: Cluster, group_id: GroupIdPath) -> Response:
    await delete_group(cluster.kafka, group_id)
    return Response(status_code=204)


@router.get("/{consumer_group_id}/consumers", summary="List a group's members", responses=documented(404))
async def list_consumers(cluster: Cluster, group_id: GroupIdPath) -> ConsumerDataList:
    group = await describe_group(cluster.kafka, group_id)
    data = [_consumer_data(cluster, group, member) for member in group.members]
    return ConsumerDataList(kind="KafkaConsumerList", metadata=whole(cluster.url), data=data)


@router.get("/{consumer_group_id}/consumers/{consumer_id}", summary="Describe a member", responses=documented(404))
async def get_consumer(cluster: Cluster, group_id: GroupIdPath, consumer_id: ConsumerIdPath) -> ConsumerData:
    group = await describe_group(cluster.kafka, group_id)
    return _consumer_data(cluster, group, member_of(group.members, consumer_id, f"group {group_id}"))


@router.get(
    "/{consumer_group_id}/consumers/{consumer_id}/assignments",
    summary="List a member's partitions",
    responses=documented(404),
)
async def list_assignments(
    cluster: Cluster, group_id: GroupIdPath, consumer_id: ConsumerIdPath
) -> ConsumerAssignmentDataList:
    member = await _member(cluster, group_id, consumer_id)
    data = [_assignment_data(cluster, group_id, member, partition) for partition in member.assignment]
    return ConsumerAssignmentDataList(kind="KafkaConsumerAssignmentList", metadata=whole(cluster.url), data=data)


@router.get(
    "/{consumer_group_id}/consumers/{consumer_id}/assignments/{topic_name}/partitions/{partition_id}",
    summary="Describe one assignment",
    responses=documented(404),
)
async def get_assignment(
    cluster: Cluster,
    group_id: GroupIdPath,
    consumer_id: ConsumerIdPath,
    topic_name: TopicNamePath,
    partition_id: PartitionIdPath,
) -> ConsumerAssignmentData:
    member = await _member(cluster, group_id, consumer_id)
    place = TopicPartition(topic_name, partition_id)
    if place not in member.assignment:
        raise not_found(f"An assignment of {topic_name}-{partition_id} to {consumer_id}")
    return _assignment_data(cluster, group_id, member, place)


async def _member(cluster: ClusterContext, group_id: str, consumer_id: str) -> Member:
    group = await describe_group(cluster.kafka, group_id)
    return member_of(group.members, consumer_id, f"group {group_id}")


def group_data(cluster: ClusterContext, group: Group) -> ConsumerGroupData:
    links = cluster.links
    return ConsumerGroupData(
        kind="KafkaConsumerGroup",
        metadata=ResourceMetadata(
            self=links.to("consumer-groups", group.group_id),
            resource_name=links.name(f"consumer-group={group.group_id}"),
        ),
        cluster_id=cluster.cluster_id,
        consumer_group_id=group.group_id,
        is_simple=group.type == CLASSIC and not group.protocol_type,
        partition_assignor=group.assignor,
        state=state_name(group.state),
        type=group.type.upper(),
        is_mixed_consumer_group=group.type == CONSUMER and len({each.is_classic for each in group.members}) > 1,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        coordinator=Relationship(related=links.to("brokers", group.coordinator)),
        consumers=Relationship(related=links.to("consumer-groups", group.group_id, "consumers")),
        lag_summary=Relationship(related=links.to("consumer-groups", group.group_id, "lag-summary")),
    )


def _consumer_data(cluster: ClusterContext, group: Group, member: Member) -> ConsumerData:
    group_id = group.group_id
    here = ("consumer-groups", group_id, "consumers", member.member_id)
    return ConsumerData(
        kind="KafkaConsumer",
        metadata=ResourceMetadata(
            self=cluster.links.to(*here),
            resource_name=cluster.links.name(f"consumer-group={group_id}", f"consumer={member.member_id}"),
        ),
        cluster_id=cluster.cluster_id,
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        protocol=(CLASSIC if member.is_classic else group.type).upper(),
        member_epoch=member.epoch,
        subscribed_topics=list(member.subscribed_topics),
        subscribed_pattern=member.subscribed_pattern,
        partitions_count=len(member.assignment),
        partitions=shown_partitions(member.assignment),
        gives_up=shown_partitions(set(member.assignment) - set(member.target)),
        waits_for=shown_partitions(set(member.target) - set(member.assignment)),
        assignments=Relationship(related=cluster.links.to(*here, "assignments")),
    )


def _assignment_data(
    cluster: ClusterContext, group_id: str, member: Member, partition: TopicPartition
) -> ConsumerAssignmentData:
    topic_name, partition_id = partition
    links = cluster.links
    return ConsumerAssignmentData(
        kind="KafkaConsumerAssignment",
        metadata=ResourceMetadata(
            self=links.to(
                "consumer-groups",
                group_id,
                "consumers",
                member.member_id,
                "assignments",
                topic_name,
                "partitions",
                partition_id,
            ),
            resource_name=links.name(
                f"consumer-group={group_id}",
                f"consumer={member.member_id}",
                f"assignment={topic_name}",
                f"partition={partition_id}",
            ),
        ),
        cluster_id=cluster.cluster_id,
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        topic_name=topic_name,
        partition_id=partition_id,
        partition=Relationship(related=links.to("topics", topic_name, "partitions", partition_id)),
        lag=Relationship(related=links.to("consumer-groups", group_id, "lags", topic_name, "partitions", partition_id)),
    )
