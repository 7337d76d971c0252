"""The cluster as a whole: its brokers, its quorum, its disks."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.client.cluster import Cluster
from kraft.client.errors import check
from kraft.common.ids import METADATA_TOPIC, TopicPartition
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.describe_quorum_response import ReplicaState

FENCED_BROKERS_VERSION = 2


@dataclass(frozen=True, slots=True)
class BrokerState:
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """`controller_id` is a live broker, as Kafka tells clients; the active controller is in `Quorum`."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerState, ...]
    """Registered ones, fenced ones too."""


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """`lag` is counted in offsets of the metadata log; times are ms since 1970, -1 where the leader cannot say."""

    node_id: int
    directory_id: bytes
    log_end_offset: int
    lag: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class Quorum:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: tuple[tuple[int, str, str, int], ...]
    """Node id, listener, host and port of each voter's listeners."""


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """Bytes are -1 where the node does not tell. `replicas` maps to size and lag (in offsets). `error` names what is
    wrong with the disk, empty: nothing."""

    node_id: int
    path: str
    total_bytes: int
    usable_bytes: int
    replicas: tuple[tuple[TopicPartition, int, int], ...]
    error: str = ""


async def describe_cluster(cluster: Cluster) -> ClusterDescription:
    """Raises ApiError."""

    async def attempt() -> ClusterDescription:
        version = await cluster.version_of(DescribeClusterRequest.API_KEY)
        request = DescribeClusterRequest(include_fenced_brokers=version >= FENCED_BROKERS_VERSION)
        response = await cluster.call(request, version=version)
        check(response.error_code, "the cluster", response.error_message)
        brokers = tuple(
            BrokerState(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers
        )
        return ClusterDescription(
            response.cluster_id, response.controller_id, tuple(sorted(brokers, key=lambda broker: broker.node_id))
        )

    return await cluster.retrying(attempt)


async def describe_quorum(cluster: Cluster) -> Quorum:
    """As the quorum's leader sees it. Raises ApiError."""
    request = DescribeQuorumRequest(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
    )

    async def attempt() -> Quorum:
        response = await cluster.call(request)
        check(response.error_code, "the quorum", response.error_message)
        partition = response.topics[0].partitions[0]
        check(partition.error_code, "the quorum", partition.error_message)
        end = max(
            (voter.log_end_offset for voter in partition.current_voters if voter.replica_id == partition.leader_id),
            default=-1,
        )
        return Quorum(
            partition.leader_id,
            partition.leader_epoch,
            partition.high_watermark,
            _replicas(partition.current_voters, end),
            _replicas(partition.observers, end),
            tuple(
                (node.node_id, each.name, each.host, each.port) for node in response.nodes for each in node.listeners
            ),
        )

    return await cluster.retrying(attempt)


def _replicas(states: list[ReplicaState], end: int) -> tuple[QuorumReplica, ...]:
    return tuple(
        QuorumReplica(
            each.replica_id,
            bytes(each.replica_directory_id),
            each.log_end_offset,
            max(0, end - each.log_end_offset),
            each.last_fetch_timestamp,
            each.last_caught_up_timestamp,
        )
        for each in sorted(states, key=lambda each: each.replica_id)
    )


async def describe_log_dirs(cluster: Cluster, node_id: int) -> list[LogDirectory]:
    """Every log directory of one broker, in order of path, those that failed too. Raises ApiError."""

    async def attempt() -> list[LogDirectory]:
        response = await cluster.call(DescribeLogDirsRequest(topics=None), node_id=node_id)
        check(response.error_code, f"broker {node_id}")
        found = []
        for result in response.results:
            error = "" if result.error_code == ErrorCode.NONE else name_of(result.error_code)
            replicas = sorted(
                (TopicPartition(topic.name, each.partition_index), each.partition_size, each.offset_lag)
                for topic in result.topics
                for each in topic.partitions
            )
            found.append(
                LogDirectory(node_id, result.log_dir, result.total_bytes, result.usable_bytes, tuple(replicas), error)
            )
        return sorted(found, key=lambda directory: directory.path)

    return await cluster.retrying(attempt)
