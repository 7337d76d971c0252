"""What a replica's directory means for its claim to lead: one that is lost, and one that is made anew on another disk (KIP-858)."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.controller.broker_heartbeat import process_heartbeat
from kraft.controller.heartbeat_manager import BrokerHeartbeatManager
from kraft.controller.replication_control.alter_partition import alter_partition
from kraft.controller.replication_control.assign_directories import assign_replicas_to_dirs
from kraft.controller.replication_control.elect_leaders import elect_leaders
from kraft.controller.request_context import ControllerRequestContext
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import assign_replicas_to_dirs_request as assign
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.unit.controller.pure_cluster import PureCluster

LOST, KEPT, NEW = b"l" * 16, b"k" * 16, b"n" * 16
RECOVERING = 1


def put(cluster: PureCluster, broker_id: int, directory: bytes) -> None:
    """A broker tells where its replica of t-0 is."""
    data = assign.TopicData(topic_id=cluster.image.topics.id_by_name["t"], partitions=[assign.PartitionData(partition_index=0)])
    directories = [assign.DirectoryData(id=directory, topics=[data])]
    request = assign.AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=cluster.epoch(broker_id), directories=directories)
    cluster.apply(assign_replicas_to_dirs(cluster.view, request))


def beat(cluster: PureCluster, broker_id: int, **fields: Any) -> Any:
    request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=cluster.epoch(broker_id), current_metadata_offset=9, **fields)
    return cluster.apply(process_heartbeat(cluster.view, request, BrokerHeartbeatManager(lambda: 100.0, 9_000), 5)).response


def with_two_directories(*replicas: int) -> PureCluster:
    """Broker 1 has two directories, and its replica of t-0 in one of them; broker 2 has one."""
    cluster = PureCluster(2)
    cluster.register(1, log_dirs=[LOST, KEPT])
    cluster.unfence(1)
    cluster.topic("t", list(replicas))
    put(cluster, 1, LOST)
    return cluster


def test_a_broker_that_is_unfenced_and_has_lost_a_directory_does_not_lead_what_was_in_it() -> None:
    cluster = with_two_directories(1)
    cluster.fence(1)
    assert not beat(cluster, 1, offline_log_dirs=[LOST]).is_fenced
    assert cluster.image.cluster.brokers[1].directories == (KEPT,)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))


def test_a_broker_that_has_lost_every_directory_is_not_unfenced() -> None:
    cluster = with_two_directories(1)
    cluster.fence(1)
    assert beat(cluster, 1, offline_log_dirs=[LOST, KEPT]).is_fenced
    assert cluster.partition("t").leader == -1


@pytest.mark.parametrize("wish", ["want_shut_down", "want_fence"])
def test_a_broker_that_goes_and_has_lost_a_directory_loses_each_leadership_once(wish: str) -> None:
    cluster = with_two_directories(1, 2)
    before = cluster.partition("t")
    beat(cluster, 1, offline_log_dirs=[LOST], **{wish: True})
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2,), before.leader_epoch + 1)


@pytest.mark.parametrize(("replicas", "leader", "isr"), [((1, 2), -1, ()), ((1,), 1, (1,))])
def test_without_elr_who_was_last_in_sync_has_no_claim_on_another_disk_unless_it_is_alone(
    replicas: tuple[int, ...], leader: int, isr: tuple[int, ...]
) -> None:
    cluster = with_two_directories(*replicas)
    cluster.fence(2)
    cluster.register(1, incarnation=2, log_dirs=[NEW, KEPT])
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    put(cluster, 1, NEW)
    cluster.unfence(1)
    cluster.unfence(2)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (leader, isr)


def test_what_lost_its_only_claim_is_led_again_by_an_unclean_election() -> None:
    cluster = with_two_directories(1, 2)
    cluster.fence(2)
    cluster.register(1, incarnation=2, log_dirs=[NEW, KEPT])
    put(cluster, 1, NEW)
    cluster.unfence(2)
    request = ElectLeadersRequest(election_type=1, topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    cluster.apply(elect_leaders(cluster.view, request))
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERING)


def test_who_returns_with_its_disk_leads_again() -> None:
    cluster = with_two_directories(1, 2)
    cluster.fence(2)
    cluster.register(1, incarnation=2, log_dirs=[KEPT])
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    cluster.register(1, incarnation=3, log_dirs=[LOST, KEPT])
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (1, (1,))


def test_a_replica_joins_the_in_sync_set_once_the_controller_knows_its_directory() -> None:
    """So a member whose directory is not online has not begun anew since it joined."""
    cluster = with_two_directories(1, 2)
    cluster.register(1, incarnation=2, log_dirs=[NEW, KEPT])
    cluster.unfence(1)

    def join() -> int:
        partition = cluster.partition("t")
        members = [BrokerState(broker_id=member, broker_epoch=cluster.epoch(member)) for member in (2, 1)]
        data = PartitionData(leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch, new_isr_with_epochs=members)
        topic = TopicData(topic_id=cluster.image.topics.id_by_name["t"], partitions=[data])
        request = AlterPartitionRequest(broker_id=2, broker_epoch=cluster.epoch(2), topics=[topic])
        return int(cluster.apply(alter_partition(cluster.view, request, ControllerRequestContext(3))).topics[0].partitions[0].error_code)

    assert join() == ErrorCode.INELIGIBLE_REPLICA
    put(cluster, 1, NEW)
    assert join() == ErrorCode.NONE
    assert cluster.partition("t").isr == (2, 1)
