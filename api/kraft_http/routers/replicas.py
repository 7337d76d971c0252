"""The progress of replicas, and partitions in trouble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from kraft.admin.metadata import Partition
from kraft.admin.moves import EARLIEST, LATEST, replica_offsets
from kraft.admin.topics import describe_topic
from kraft.common.ids import TopicPartition
from kraft_http.health.health import PartitionRef, is_offline, is_under_min_isr, is_under_replicated, partition_ref
from kraft_http.models.common import ResourceMetadata
from kraft_http.models.operations import ReplicaStatusData, ReplicaStatusDataList
from kraft_http.ports import PartitionFacts
from kraft_http.requests.deps import Cluster, ClusterContext, PartitionIdPath, Port, TopicNamePath, unanswered, whole
from kraft_http.requests.errors import documented

router = APIRouter(tags=["Replicas"])

V3 = "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions"


class PartitionTroubles(BaseModel):
    count: int
    data: list[PartitionRef]


@router.get("/v1/partitions", summary="List partitions in trouble")
async def list_troubled_partitions(
    port: Port,
    state: Annotated[
        Literal["any", "offline", "under_replicated", "under_min_isr"],
        Query(
            description=(
                "offline: without a leader. under_replicated: some replicas are not in sync. under_min_isr: "
                "acks=all is rejected."
            )
        ),
    ] = "any",
    limit: Annotated[int, Query(ge=1, le=100_000)] = 1_000,
) -> PartitionTroubles:
    """List partitions in trouble, as this node's metadata shows them."""
    facts = await port.cluster_facts()
    found = [partition for partition in facts.impaired if _is(state, partition)]
    return PartitionTroubles(count=len(found), data=[partition_ref(partition) for partition in found[:limit]])


def _is(state: str, partition: PartitionFacts) -> bool:
    if state == "offline":
        return is_offline(partition)
    if state == "under_replicated":
        return is_under_replicated(partition)
    return state == "any" or is_under_min_isr(partition)


@router.get(V3 + "/-/replica-status", summary="How far the replicas of a topic are", responses=documented(404))
async def list_topic_replica_status(cluster: Cluster, topic_name: TopicNamePath) -> ReplicaStatusDataList:
    topic = await describe_topic(cluster.kafka, topic_name)
    return await _statuses(cluster, topic_name, topic.partitions)


@router.get(
    V3 + "/{partition_id}/replica-status", summary="How far the replicas of a partition are", responses=documented(404)
)
async def list_partition_replica_status(
    cluster: Cluster, topic_name: TopicNamePath, partition_id: PartitionIdPath
) -> ReplicaStatusDataList:
    topic = await describe_topic(cluster.kafka, topic_name)
    return await _statuses(cluster, topic_name, [topic.partition(partition_id)])


async def _statuses(cluster: ClusterContext, topic: str, partitions: Sequence[Partition]) -> ReplicaStatusDataList:
    asked: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        for broker_id in partition.replicas:
            asked.setdefault(broker_id, []).append(TopicPartition(topic, partition.index))
    ends = await replica_offsets(cluster.kafka, asked, LATEST)
    starts = await replica_offsets(cluster.kafka, asked, EARLIEST)
    data = [
        _status(cluster, topic, partition, broker_id, ends, starts)
        for partition in partitions
        for broker_id in partition.replicas
    ]
    return ReplicaStatusDataList(
        kind="KafkaReplicaStatusList",
        metadata=whole(cluster.url),
        data=data,
        unanswered_brokers=unanswered(cluster.kafka),
    )


def _status(
    cluster: ClusterContext,
    topic: str,
    partition: Partition,
    broker_id: int,
    ends: dict[tuple[int, TopicPartition], int],
    starts: dict[tuple[int, TopicPartition], int],
) -> ReplicaStatusData:
    index, place = partition.index, TopicPartition(topic, partition.index)
    end, leader_end = ends.get((broker_id, place)), ends.get((partition.leader, place))
    lag = None if end is None or leader_end is None else max(0, leader_end - end)
    here = ("topics", topic, "partitions", index, "replicas", broker_id)
    return ReplicaStatusData(
        kind="KafkaReplicaStatus",
        metadata=ResourceMetadata(
            self=cluster.links.to(*here),
            resource_name=cluster.links.name(f"topic={topic}", f"partition={index}", f"replica={broker_id}"),
        ),
        cluster_id=cluster.cluster_id,
        topic_name=topic,
        partition_id=index,
        broker_id=broker_id,
        is_leader=broker_id == partition.leader,
        is_in_isr=broker_id in partition.in_sync,
        is_caught_up=lag == 0,
        log_start_offset=starts.get((broker_id, place)),
        log_end_offset=end,
        lag=lag,
    )
