"""The cluster as a whole: its brokers, its quorum, its disks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kraft.admin.errors import check
from kraft.admin.transport import AdminTransport
from kraft.common.ids import METADATA_TOPIC, TopicPartition
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.describe_quorum_response import DescribeQuorumResponse, ReplicaState

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
    """`controller_id` is any live broker, as Kafka returns to clients; the active controller is in `Quorum`."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerState, ...]
    """All registered brokers, including fenced ones."""


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A replica of the metadata log. `lag` is in offsets; times are ms since 1970, -1 if the leader does not know
    them."""

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


class HeldReplica(NamedTuple):
    """A replica in a log directory. `lag` is in offsets. `is_future`: it is being moved here from another directory."""

    partition: TopicPartition
    size_bytes: int
    lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A log directory of a node. Sizes are in bytes, -1 if the node does not return them. `error_code` is not NONE if
    the disk has failed."""

    node_id: int
    path: str
    total_bytes: int
    usable_bytes: int
    replicas: tuple[HeldReplica, ...]
    error_code: int = ErrorCode.NONE
    is_cordoned: bool = False
    """Whether the directory is cordoned: no new replicas are placed there (KIP-1066)."""

    @property
    def error(self) -> str:
        """The name of the error code; empty without an error."""
        return "" if self.error_code == ErrorCode.NONE else name_of(self.error_code)

    @property
    def size_bytes(self) -> int:
        """The size of all replicas together, in bytes."""
        return sum(replica.size_bytes for replica in self.replicas)


async def describe_cluster(port: AdminTransport) -> ClusterDescription:
    """The brokers of the cluster. Raises Refused."""

    async def attempt() -> ClusterDescription:
        version = await port.version_of(DescribeClusterRequest.API_KEY)
        request = DescribeClusterRequest(include_fenced_brokers=version >= FENCED_BROKERS_VERSION)
        response = await port.ask(request, DescribeClusterResponse, version=version)
        check(response.error_code, "the cluster", response.error_message)
        brokers = tuple(
            BrokerState(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers
        )
        return ClusterDescription(
            response.cluster_id, response.controller_id, tuple(sorted(brokers, key=lambda broker: broker.node_id))
        )

    return await port.retrying(attempt)


async def describe_quorum(port: AdminTransport) -> Quorum:
    """The metadata quorum as its leader sees it. Raises Refused."""
    request = DescribeQuorumRequest(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
    )

    async def attempt() -> Quorum:
        response = await port.ask(request, DescribeQuorumResponse)
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

    return await port.retrying(attempt)


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


async def describe_log_dirs(
    port: AdminTransport, node_id: int, topic: tuple[str, Sequence[int]] | None = None, *, with_replicas: bool = True
) -> list[LogDirectory]:
    """Every log directory of one broker, sorted by path, failed ones included. `topic` limits the replicas to those
    partitions; replicas are listed only with `with_replicas`. Raises Refused."""
    topics = None if topic is None else [DescribableLogDirTopic(topic=topic[0], partitions=list(topic[1]))]
    if not with_replicas:
        topics = []

    async def attempt() -> list[LogDirectory]:
        response = await port.ask(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, node_id=node_id)
        check(response.error_code, f"broker {node_id}")
        found = [_log_directory(node_id, result) for result in response.results]
        return sorted(found, key=lambda directory: directory.path)

    return await port.retrying(attempt)


def _log_directory(node_id: int, result: DescribeLogDirsResult) -> LogDirectory:
    replicas = sorted(
        HeldReplica(
            TopicPartition(topic.name, each.partition_index), each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in result.topics
        for each in topic.partitions
    )
    return LogDirectory(
        node_id,
        result.log_dir,
        result.total_bytes,
        result.usable_bytes,
        tuple(replicas),
        result.error_code,
        result.is_cordoned,
    )
