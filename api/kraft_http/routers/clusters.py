"""Clusters, brokers, the quorum."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, Request

from kraft.admin.authorized_operations import cluster_operations
from kraft.admin.cluster import BrokerState, describe_cluster, describe_quorum
from kraft.admin.errors import Refused
from kraft.admin.topics import list_topics
from kraft_http.models.clusters import BrokerData, BrokerDataList, ClusterData, ClusterDataList
from kraft_http.models.common import CollectionMetadata, Relationship, ResourceMetadata
from kraft_http.models.topics import ReplicaData, ReplicaDataList
from kraft_http.node_transport import NodeTransport
from kraft_http.requests.deps import BrokerIdPath, Cluster, ClusterContext, IncludeOperations, Port, whole
from kraft_http.requests.errors import documented, not_found
from kraft_http.requests.links import Links
from kraft_http.routers.partitions import replica_data

router = APIRouter(prefix="/v3/clusters")

QUORUM_SECONDS_MAX: Final = 2.0


@router.get("", tags=["Clusters"], summary="List clusters: always this one")
async def list_clusters(request: Request, port: Port, tells: IncludeOperations = False) -> ClusterDataList:
    links = Links(str(request.base_url), port.identity.cluster_id)
    cluster = await _cluster_data(NodeTransport(port), links, tells=tells)
    return ClusterDataList(kind="KafkaClusterList", metadata=CollectionMetadata(self=links.clusters), data=[cluster])


@router.get("/{cluster_id}", tags=["Clusters"], summary="Describe the cluster", responses=documented(404))
async def get_cluster(cluster: Cluster, tells: IncludeOperations = False) -> ClusterData:
    return await _cluster_data(cluster.kafka, cluster.links, tells=tells)


async def _cluster_data(kafka: NodeTransport, links: Links, *, tells: bool) -> ClusterData:
    leader = await _controller(kafka)
    brokers = [broker.node_id for broker in (await describe_cluster(kafka)).brokers]
    return ClusterData(
        kind="KafkaCluster",
        metadata=ResourceMetadata(self=links.to(), resource_name=links.name()),
        cluster_id=links.cluster_id,
        controller=Relationship(related=links.to("brokers", leader)) if leader in brokers else None,
        acls=Relationship(related=links.to("acls")),
        brokers=Relationship(related=links.to("brokers")),
        broker_configs=Relationship(related=links.to("broker-configs")),
        consumer_groups=Relationship(related=links.to("consumer-groups")),
        share_groups=Relationship(related=links.to("share-groups")),
        topics=Relationship(related=links.to("topics")),
        partition_reassignments=Relationship(related=links.to("topics", "-", "partitions", "-", "reassignment")),
        authorized_operations=list(await cluster_operations(kafka)) if tells else [],
    )


async def _controller(kafka: NodeTransport) -> int:
    """The quorum's leader; -1 if there is none, or if it does not answer within QUORUM_SECONDS_MAX. Metadata cannot be
    used: it gives any broker as the controller."""
    try:
        async with asyncio.timeout(QUORUM_SECONDS_MAX):
            return (await describe_quorum(kafka)).leader_id
    except (TimeoutError, Refused):
        return -1


@router.get("/{cluster_id}/brokers", tags=["Brokers"], summary="List brokers", responses=documented(404))
async def list_brokers(cluster: Cluster) -> BrokerDataList:
    brokers = (await describe_cluster(cluster.kafka)).brokers
    return BrokerDataList(
        kind="KafkaBrokerList", metadata=whole(cluster.url), data=[_broker_data(cluster, broker) for broker in brokers]
    )


@router.get(
    "/{cluster_id}/brokers/{broker_id}", tags=["Brokers"], summary="Describe a broker", responses=documented(404)
)
async def get_broker(cluster: Cluster, broker_id: BrokerIdPath) -> BrokerData:
    return _broker_data(cluster, await find_broker(cluster.kafka, broker_id))


async def find_broker(kafka: NodeTransport, broker_id: int) -> BrokerState:
    """The state of a broker. Raises ApiProblem 404."""
    for broker in (await describe_cluster(kafka)).brokers:
        if broker.node_id == broker_id:
            return broker
    raise not_found(f"Broker {broker_id}")


def _broker_data(cluster: ClusterContext, broker: BrokerState) -> BrokerData:
    links = cluster.links
    return BrokerData(
        kind="KafkaBroker",
        metadata=ResourceMetadata(
            self=links.to("brokers", broker.node_id), resource_name=links.name(f"broker={broker.node_id}")
        ),
        cluster_id=cluster.cluster_id,
        broker_id=broker.node_id,
        host=broker.host or None,
        port=broker.port if broker.host else None,
        rack=broker.rack,
        is_fenced=broker.is_fenced,
        configs=Relationship(related=links.to("brokers", broker.node_id, "configs")),
        partition_replicas=Relationship(related=links.to("brokers", broker.node_id, "partition-replicas")),
    )


@router.get(
    "/{cluster_id}/brokers/{broker_id}/partition-replicas",
    tags=["Replicas"],
    summary="List the replicas on a broker",
    responses=documented(404),
)
async def list_broker_replicas(cluster: Cluster, broker_id: BrokerIdPath) -> ReplicaDataList:
    await find_broker(cluster.kafka, broker_id)
    replicas: list[ReplicaData] = [
        replica_data(cluster, topic.name, partition, broker_id)
        for topic in await list_topics(cluster.kafka)
        for partition in topic.partitions
        if broker_id in partition.replicas
    ]
    return ReplicaDataList(kind="KafkaReplicaList", metadata=whole(cluster.url), data=replicas)
