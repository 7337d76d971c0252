"""Who stays eligible for leadership while replicas come and go."""

from __future__ import annotations

from kraft.controller.replication_control.assign_directories import assign_replicas_to_dirs
from kraft.controller.replication_control.reassignments import alter_partition_reassignments
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest, DirectoryData, PartitionData, TopicData
from tests.unit.controller.pure_cluster import PureCluster
from tests.unit.controller.test_leaders import propose


def reassign(cluster: PureCluster, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[partition])])
    result = cluster.apply(alter_partition_reassignments(cluster.view, request)).responses[0].partitions[0]
    assert result.error_code == ErrorCode.NONE


def test_a_replica_that_a_move_took_away_is_eligible_no_longer_not_even_when_it_is_assigned_again() -> None:
    cluster = PureCluster(1, 2, 3, 4, elr=True)
    cluster.topic("t", [3, 4, 1], min_insync_replicas="2")
    reassign(cluster, 4, 2, 1)
    cluster.fence(4)
    cluster.fence(1)
    propose(cluster, "t", [3, 2])
    moved = cluster.partition("t")
    assert (moved.replicas, moved.isr, moved.elr, moved.leader) == ((4, 2, 1), (2,), (1,), 2)
    cluster.fence(2)
    reassign(cluster, 2, 1, 3)
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.elr) == (-1, (), (1, 2)), "3 is alive, and has an empty log"
    cluster.unfence(1)
    assert cluster.partition("t").leader == 1


def test_a_replica_that_is_made_anew_in_another_directory_is_not_eligible_any_more() -> None:
    """It came back in good order, without the directory that had its log: what it is assigned to now is empty."""
    former, other = bytes([7]) * 16, bytes([8]) * 16
    cluster = PureCluster(2, 3, elr=True)
    cluster.register(1, log_dirs=[former])
    cluster.unfence(1)
    topic_id = cluster.topic("t", [1, 2], min_insync_replicas="2")

    def assign(directory: bytes) -> None:
        topics = [TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=0)])]
        directories = [DirectoryData(id=directory, topics=topics)]
        request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=cluster.epoch(1), directories=directories)
        cluster.apply(assign_replicas_to_dirs(cluster.view, request))

    assign(former)
    cluster.fence(1)
    assert cluster.partition("t").elr == (1,)
    cluster.register(1, incarnation=2, previous_epoch=cluster.epoch(1), log_dirs=[other])
    assign(other)
    assert cluster.partition("t").elr == ()
    cluster.unfence(1)
    cluster.fence(2)
    assert (cluster.partition("t").leader, cluster.partition("t").elr) == (-1, (2,))
