"""What brokers and operators ask of the controller about the partitions of a `PureCluster`: each request, and what
became of it."""

from __future__ import annotations

from typing import Any

from kraft.controller.replication_control.alter_partition import alter_partition
from kraft.controller.replication_control.assign_directories import assign_replicas_to_dirs
from kraft.controller.replication_control.elect_leaders import elect_leaders
from kraft.controller.replication_control.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from kraft.controller.request_context import ControllerRequestContext
from kraft.protocol.messages import assign_replicas_to_dirs_request as assign
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from tests.unit.controller.pure_cluster import PureCluster

RECOVERING = 1


def propose(
    cluster: PureCluster, name: str, isr: list[int], *, version: int = 3, sender: int | None = None, **fields: Any
) -> tuple[int, Any]:
    """AlterPartition by the leader of partition 0, unless said otherwise; returns code and answer."""
    partition = cluster.partition(name)
    sender = partition.leader if sender is None else sender
    members = [
        BrokerState(
            broker_id=member, broker_epoch=cluster.epoch(member) if member in cluster.image.cluster.brokers else -1
        )
        for member in isr
    ]
    known: dict[str, Any] = {"leader_epoch": partition.leader_epoch, "partition_epoch": partition.partition_epoch}
    data = PartitionData(**{**known, "new_isr_with_epochs": members, "new_isr": isr, **fields})
    topic_id = cluster.image.topics.id_by_name[name]
    request = AlterPartitionRequest(
        broker_id=sender, broker_epoch=cluster.epoch(sender), topics=[TopicData(topic_id=topic_id, partitions=[data])]
    )
    answer = (
        cluster.apply(alter_partition(cluster.view, request, ControllerRequestContext(version))).topics[0].partitions[0]
    )
    return answer.error_code, answer


def elect(cluster: PureCluster, kind: int, *partitions: int, name: str = "t") -> list[tuple[int, int]]:
    """ElectLeaders of that kind, of all partitions if none are named; partition and code of each answer."""
    topics = [TopicPartitions(topic=name, partitions=list(partitions))] if partitions else None
    answer = cluster.apply(
        elect_leaders(cluster.view, ElectLeadersRequest(election_type=kind, topic_partitions=topics))
    )
    return [
        (result.partition_id, result.error_code)
        for topic in answer.replica_election_results
        for result in topic.partition_result
    ]


def move(
    cluster: PureCluster, replicas: list[int] | None, *, index: int = 0, name: str = "t", may_change_factor: bool = True
) -> tuple[int, str | None]:
    """AlterPartitionReassignments of one partition, to None: cancel; returns code and message."""
    topics = [
        ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=may_change_factor)
    result = cluster.apply(alter_partition_reassignments(cluster.view, request)).responses[0].partitions[0]
    return result.error_code, result.error_message


def ongoing(cluster: PureCluster) -> list[tuple[int, list[int], list[int], list[int]]]:
    """Index, replicas, those to be added and those to be removed of every move under way."""
    answer = list_partition_reassignments(cluster.image, ListPartitionReassignmentsRequest())
    return [
        (p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in answer.topics
        for p in topic.partitions
    ]


def put_replica(cluster: PureCluster, broker_id: int, directory: bytes, *, index: int = 0, name: str = "t") -> int:
    """A broker tells where its replica is; returns the code."""
    topic = assign.TopicData(
        topic_id=cluster.image.topics.id_by_name[name], partitions=[assign.PartitionData(partition_index=index)]
    )
    directories = [assign.DirectoryData(id=directory, topics=[topic])]
    request = assign.AssignReplicasToDirsRequest(
        broker_id=broker_id, broker_epoch=cluster.epoch(broker_id), directories=directories
    )
    return (
        cluster.apply(assign_replicas_to_dirs(cluster.view, request)).directories[0].topics[0].partitions[0].error_code
    )
