"""Committed offsets and lag of consumer groups."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from kraft.admin.group_lags import GroupPartition, Lag, lags_of, partitions_of
from kraft.admin.groups import Committed, committed_offsets, describe_group
from kraft.admin.status import group_progress
from kraft.common.ids import TopicPartition
from kraft_http.health.health_findings import LateMember
from kraft_http.models.common import Relationship, ResourceMetadata
from kraft_http.models.groups import (
    ConsumerGroupLagSummaryData,
    ConsumerLagData,
    ConsumerLagDataList,
    GroupOffsetData,
    GroupOffsetDataList,
    GroupPartitionData,
    GroupProgressData,
)
from kraft_http.requests.deps import (
    Cluster,
    ClusterContext,
    GroupIdPath,
    PartitionIdPath,
    Port,
    TopicNamePath,
    cluster_context,
    whole,
)
from kraft_http.requests.errors import documented, not_found

router = APIRouter(prefix="/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}", tags=["Consumer groups"])

progress_router = APIRouter(tags=["Consumer groups"])


@progress_router.get(
    "/v1/groups/{consumer_group_id}/progress",
    summary="How a group gets on with each of its partitions, and which members are stuck or slow",
    responses=documented(404),
)
async def get_progress(request: Request, port: Port, group_id: GroupIdPath) -> GroupProgressData:
    """Return every partition for which the group has a committed offset or that is assigned to one of its members. The
    coordinator samples the members every 10 s, or every 30 s if it has more than 100 groups."""
    cluster = await cluster_context(request, port, port.identity.cluster_id)
    group = await describe_group(cluster.kafka, group_id)
    committed = await committed_offsets(cluster.kafka, group_id)
    told: dict[str, Any] = await group_progress(cluster.kafka, group_id, group.coordinator) or {}
    known = {TopicPartition(each["topic"], each["partition"]): each for each in told.get("partitions", ())}
    return GroupProgressData(
        consumer_group_id=group_id,
        partitions=[
            _partition_data(each, known.get(each.partition, {}))
            for each in await partitions_of(cluster.kafka, group, committed)
        ],
        late_members=[LateMember.model_validate(each) for each in told.get("members", ())],
        stuck_ms=told.get("stuck_ms"),
    )


def _partition_data(each: GroupPartition, told: dict[str, Any]) -> GroupPartitionData:
    owner = each.owner
    return GroupPartitionData(
        topic_name=each.partition.topic,
        partition_id=each.partition.partition,
        current_offset=each.offset,
        log_end_offset=each.log_end_offset,
        lag=each.lag,
        last_commit_ms=told.get("last_commit_ms"),
        pace=None if owner is None else told.get("pace"),
        consumer_id=None if owner is None else owner.member_id,
        instance_id=None if owner is None else owner.instance_id,
        client_id=None if owner is None else owner.client_id,
        host=None if owner is None else owner.host,
    )


@router.get("/offsets", summary="List what a group has committed", responses=documented(404))
async def list_offsets(cluster: Cluster, group_id: GroupIdPath) -> GroupOffsetDataList:
    await describe_group(cluster.kafka, group_id)  # Raises where there is none.
    committed = await committed_offsets(cluster.kafka, group_id)
    data = [_offset_data(cluster, group_id, partition, at) for partition, at in committed.items()]
    return GroupOffsetDataList(kind="KafkaConsumerGroupOffsetList", metadata=whole(cluster.url), data=data)


@router.get("/lags", summary="List a group's lag by partition", responses=documented(404))
async def list_lags(cluster: Cluster, group_id: GroupIdPath) -> ConsumerLagDataList:
    """List the lags, the largest first, as in REST v3."""
    lags = sorted(await _lags(cluster, group_id), key=lambda lag: -lag.lag)
    return ConsumerLagDataList(
        kind="KafkaConsumerLagList",
        metadata=whole(cluster.url),
        data=[_lag_data(cluster, group_id, lag) for lag in lags],
    )


@router.get(
    "/lags/{topic_name}/partitions/{partition_id}", summary="A group's lag on one partition", responses=documented(404)
)
async def get_lag(
    cluster: Cluster, group_id: GroupIdPath, topic_name: TopicNamePath, partition_id: PartitionIdPath
) -> ConsumerLagData:
    for lag in await _lags(cluster, group_id):
        if lag.partition == (topic_name, partition_id):
            return _lag_data(cluster, group_id, lag)
    raise not_found(f"A commit of group {group_id} on {topic_name}-{partition_id}")


@router.get("/lag-summary", summary="A group's largest and total lag", responses=documented(404))
async def get_lag_summary(cluster: Cluster, group_id: GroupIdPath) -> ConsumerGroupLagSummaryData:
    lags = await _lags(cluster, group_id)
    if not lags:
        raise not_found(f"A commit of group {group_id}, from which its lag could be told,")
    worst = max(lags, key=lambda lag: lag.lag)
    consumer_id = worst.owner.member_id if worst.owner else ""
    links = cluster.links
    return ConsumerGroupLagSummaryData(
        kind="KafkaConsumerGroupLagSummary",
        metadata=ResourceMetadata(
            self=links.to("consumer-groups", group_id, "lag-summary"),
            resource_name=links.name(f"consumer-group={group_id}", "lag-summary"),
        ),
        cluster_id=cluster.cluster_id,
        consumer_group_id=group_id,
        max_lag_consumer_id=consumer_id,
        max_lag_instance_id=worst.owner.instance_id if worst.owner else None,
        max_lag_client_id=worst.owner.client_id if worst.owner else "",
        max_lag_topic_name=worst.partition.topic,
        max_lag_partition_id=worst.partition.partition,
        max_lag=worst.lag,
        total_lag=sum(lag.lag for lag in lags),
        max_lag_consumer=Relationship(related=links.to("consumer-groups", group_id, "consumers", consumer_id)),
        max_lag_partition=Relationship(
            related=links.to("topics", worst.partition.topic, "partitions", worst.partition.partition)
        ),
    )


async def _lags(cluster: ClusterContext, group_id: str) -> list[Lag]:
    group = await describe_group(cluster.kafka, group_id)
    return await lags_of(cluster.kafka, group, await committed_offsets(cluster.kafka, group_id))


def _offset_data(cluster: ClusterContext, group_id: str, partition: TopicPartition, at: Committed) -> GroupOffsetData:
    links = cluster.links
    return GroupOffsetData(
        kind="KafkaConsumerGroupOffset",
        metadata=ResourceMetadata(
            self=links.to("consumer-groups", group_id, "offsets"),
            resource_name=links.name(
                f"consumer-group={group_id}", f"offset={partition.topic}", f"partition={partition.partition}"
            ),
        ),
        cluster_id=cluster.cluster_id,
        consumer_group_id=group_id,
        topic_name=partition.topic,
        partition_id=partition.partition,
        offset=at.offset,
        leader_epoch=at.leader_epoch,
        committed_metadata=at.metadata,
    )


def _lag_data(cluster: ClusterContext, group_id: str, lag: Lag) -> ConsumerLagData:
    topic_name, partition_id = lag.partition
    links = cluster.links
    return ConsumerLagData(
        kind="KafkaConsumerLag",
        metadata=ResourceMetadata(
            self=links.to("consumer-groups", group_id, "lags", topic_name, "partitions", partition_id),
            resource_name=links.name(f"consumer-group={group_id}", f"lag={topic_name}", f"partition={partition_id}"),
        ),
        cluster_id=cluster.cluster_id,
        consumer_group_id=group_id,
        topic_name=topic_name,
        partition_id=partition_id,
        current_offset=lag.offset,
        log_end_offset=lag.log_end_offset,
        lag=lag.lag,
        consumer_id=lag.owner.member_id if lag.owner else "",
        instance_id=lag.owner.instance_id if lag.owner else None,
        client_id=lag.owner.client_id if lag.owner else "",
    )
