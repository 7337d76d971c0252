"""Partitions, their offsets, their replicas."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from kraft.admin.delete_records import delete_records
from kraft.admin.metadata import Partition
from kraft.admin.offsets import EARLIEST, LATEST, offsets_at_leaders
from kraft.admin.topics import describe_topic
from kraft.common.ids import TopicPartition
from kraft_http.models.common import INT64_MAX, Relationship, ResourceMetadata
from kraft_http.models.topics import (
    DeleteRecordsData,
    PartitionData,
    PartitionDataList,
    PartitionOffsetsData,
    ReplicaData,
    ReplicaDataList,
)
from kraft_http.requests.deps import (
    BrokerIdPath,
    Cluster,
    ClusterContext,
    PartitionIdPath,
    TopicNamePath,
    Writable,
    whole,
)
from kraft_http.requests.errors import documented, not_found

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics/{topic_name}/partitions")


@router.get("", tags=["Partitions"], summary="List a topic's partitions", responses=documented(404))
async def list_partitions(cluster: Cluster, topic_name: TopicNamePath) -> PartitionDataList:
    topic = await describe_topic(cluster.kafka, topic_name)
    data = [partition_data(cluster, topic_name, partition) for partition in topic.partitions]
    return PartitionDataList(kind="KafkaPartitionList", metadata=whole(cluster.url), data=data)


@router.get("/{partition_id}", tags=["Partitions"], summary="Describe a partition", responses=documented(404))
async def get_partition(cluster: Cluster, topic_name: TopicNamePath, partition_id: PartitionIdPath) -> PartitionData:
    return partition_data(cluster, topic_name, await _partition(cluster, topic_name, partition_id))


@router.get(
    "/{partition_id}/offset",
    tags=["Partitions"],
    summary="A partition's first and next offset",
    responses=documented(404),
)
async def get_offsets(
    cluster: Cluster,
    topic_name: TopicNamePath,
    partition_id: PartitionIdPath,
    timestamp: Annotated[
        int | None,
        Query(
            ge=0,
            le=INT64_MAX,
            description="Also return the offset of the first record at or after this time, in milliseconds since 1970.",
        ),
    ] = None,
    offset_type: Annotated[
        Literal["earliest_and_latest"], Query(description="Offsets to return. REST v3 has only both.")
    ] = "earliest_and_latest",
) -> PartitionOffsetsData:
    partition = await _partition(cluster, topic_name, partition_id)
    place = TopicPartition(topic_name, partition_id)
    leader = {place: partition.leader}
    earliest = await offsets_at_leaders(cluster.kafka, leader, EARLIEST)
    latest = await offsets_at_leaders(cluster.kafka, leader, LATEST)
    at_time = None if timestamp is None else await offsets_at_leaders(cluster.kafka, leader, timestamp)
    links = cluster.links
    return PartitionOffsetsData(
        kind="KafkaPartitionWithOffsets",
        metadata=ResourceMetadata(
            self=links.to("topics", topic_name, "partitions", partition_id, "offset"),
            resource_name=links.name(f"topic={topic_name}", f"partition={partition_id}", "offset"),
        ),
        cluster_id=cluster.cluster_id,
        topic_name=topic_name,
        partition_id=partition_id,
        earliest_offset=earliest[place],
        latest_offset=latest[place],
        offset=None if at_time is None else at_time[place],
    )


@router.delete(
    "/{partition_id}/records",
    tags=["Records"],
    summary="Delete the records before an offset",
    dependencies=[Writable],
    responses=documented(400, 403, 404),
)
async def delete_partition_records(
    cluster: Cluster,
    topic_name: TopicNamePath,
    partition_id: PartitionIdPath,
    before_offset: Annotated[int, Query(ge=-1, le=INT64_MAX, description="First offset to keep; -1 deletes all.")],
) -> DeleteRecordsData:
    deletion = await delete_records(cluster.kafka, {TopicPartition(topic_name, partition_id): before_offset})
    [low_watermark] = deletion.require().values()
    return DeleteRecordsData(topic_name=topic_name, partition_id=partition_id, low_watermark=low_watermark)


@router.get(
    "/{partition_id}/replicas", tags=["Replicas"], summary="List a partition's replicas", responses=documented(404)
)
async def list_replicas(cluster: Cluster, topic_name: TopicNamePath, partition_id: PartitionIdPath) -> ReplicaDataList:
    partition = await _partition(cluster, topic_name, partition_id)
    data = [replica_data(cluster, topic_name, partition, broker_id) for broker_id in partition.replicas]
    return ReplicaDataList(kind="KafkaReplicaList", metadata=whole(cluster.url), data=data)


@router.get(
    "/{partition_id}/replicas/{broker_id}", tags=["Replicas"], summary="Describe a replica", responses=documented(404)
)
async def get_replica(
    cluster: Cluster, topic_name: TopicNamePath, partition_id: PartitionIdPath, broker_id: BrokerIdPath
) -> ReplicaData:
    partition = await _partition(cluster, topic_name, partition_id)
    if broker_id not in partition.replicas:
        raise not_found(f"A replica of {topic_name}-{partition_id} on broker {broker_id}")
    return replica_data(cluster, topic_name, partition, broker_id)


async def _partition(cluster: ClusterContext, topic_name: str, partition_id: int) -> Partition:
    """The partition. Raises Refused."""
    return (await describe_topic(cluster.kafka, topic_name)).partition(partition_id)


def partition_data(cluster: ClusterContext, topic_name: str, partition: Partition) -> PartitionData:
    index, links = partition.index, cluster.links
    here = ("topics", topic_name, "partitions", index)
    return PartitionData(
        kind="KafkaPartition",
        metadata=ResourceMetadata(
            self=links.to(*here), resource_name=links.name(f"topic={topic_name}", f"partition={index}")
        ),
        cluster_id=cluster.cluster_id,
        topic_name=topic_name,
        partition_id=index,
        leader=Relationship(related=links.to(*here, "replicas", partition.leader)) if partition.leader >= 0 else None,
        replicas=Relationship(related=links.to(*here, "replicas")),
        reassignment=Relationship(related=links.to(*here, "reassignment")),
        leader_epoch=partition.leader_epoch,
        in_sync_replicas=list(partition.in_sync),
        replica_ids=list(partition.replicas),
        is_under_replicated=len(partition.in_sync) < len(partition.replicas),
    )


def replica_data(cluster: ClusterContext, topic_name: str, partition: Partition, broker_id: int) -> ReplicaData:
    index, links = partition.index, cluster.links
    return ReplicaData(
        kind="KafkaReplica",
        metadata=ResourceMetadata(
            self=links.to("topics", topic_name, "partitions", index, "replicas", broker_id),
            resource_name=links.name(f"topic={topic_name}", f"partition={index}", f"replica={broker_id}"),
        ),
        cluster_id=cluster.cluster_id,
        topic_name=topic_name,
        partition_id=index,
        broker_id=broker_id,
        is_leader=partition.leader == broker_id,
        is_in_sync=broker_id in partition.in_sync,
        broker=Relationship(related=links.to("brokers", broker_id)),
    )
