"""Who leads: the choice in every situation, with and without ELR; AlterPartition, ElectLeaders, reassignments, directories."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.controller.broker_heartbeat import process_heartbeat
from kraft.controller.heartbeat_manager import BrokerHeartbeatManager
from kraft.controller.replication_control import leader_and_isr
from kraft.controller.replication_control.alter_partition import alter_partition
from kraft.controller.replication_control.assign_directories import assign_replicas_to_dirs
from kraft.controller.replication_control.elect_leaders import elect_leaders, elect_unclean_leaders
from kraft.controller.replication_control.reassignments import alter_partition_reassignments, list_partition_reassignments
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import assign_replicas_to_dirs_request as assign
from kraft.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from tests.unit.controller.pure_cluster import PureCluster

RECOVERING = 1


def propose(cluster: PureCluster, name: str, isr: list[int], *, version: int = 3, sender: int | None = None, **fields: Any) -> tuple[int, Any]:
    """AlterPartition by the leader of partition 0, unless said otherwise; returns code and answer."""
    partition = cluster.partition(name)
    sender = partition.leader if sender is None else sender
    members = [BrokerState(broker_id=member, broker_epoch=cluster.epoch(member) if member in cluster.image.cluster.brokers else -1) for member in isr]
    known: dict[str, Any] = {"leader_epoch": partition.leader_epoch, "partition_epoch": partition.partition_epoch}
    data = PartitionData(**{**known, "new_isr_with_epochs": members, "new_isr": isr, **fields})
    topic_id = cluster.image.topics.id_by_name[name]
    request = AlterPartitionRequest(broker_id=sender, broker_epoch=cluster.epoch(sender), topics=[TopicData(topic_id=topic_id, partitions=[data])])
    answer = cluster.apply(alter_partition(cluster.view, request, ControllerRequestContext(version))).topics[0].partitions[0]
    return answer.error_code, answer


def test_fencing_takes_a_broker_out_of_every_isr_and_elects_the_next_in_order() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2, 3], [2, 1, 3])
    cluster.fence(1)
    first, second = cluster.partition("t", 0), cluster.partition("t", 1)
    assert (first.leader, first.isr, first.leader_epoch, first.partition_epoch) == (2, (2, 3), 1, 1)
    assert (second.leader, second.isr, second.leader_epoch, second.partition_epoch) == (2, (2, 3), 0, 1), "no epoch bump for an ISR that shrinks (KIP-966)"


def test_without_elr_the_last_member_stays_in_the_isr_and_alone_may_return() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    cluster.fence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    cluster.unfence(2)
    assert cluster.partition("t").leader == -1
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_recovery_state) == (1, 0)


def test_an_unclean_election_happens_only_where_the_policy_allows_it() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    cluster.topic("u", [1, 2], unclean_leader_election_enable="true")
    cluster.fence(2)
    cluster.fence(1)
    cluster.unfence(2)
    assert cluster.partition("t").leader == -1
    unclean = cluster.partition("u")
    assert (unclean.leader, unclean.isr, unclean.leader_recovery_state) == (2, (2,), RECOVERING)


def test_the_policy_may_be_the_clusters() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    cluster.topic("kept", [1, 2], unclean_leader_election_enable="false")
    cluster.configure(4, "", unclean_leader_election_enable="true")
    cluster.fence(2)
    cluster.fence(1)
    cluster.unfence(2)
    assert cluster.partition("t").leader == 2
    assert cluster.partition("kept").leader == -1


def test_the_periodic_scan_elects_for_topics_that_came_to_allow_it() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    cluster.fence(1)
    cluster.unfence(2)
    assert elect_unclean_leaders(cluster.view).records == []
    cluster.configure(2, "t", unclean_leader_election_enable="true")
    cluster.held = frozenset({1})
    assert elect_unclean_leaders(cluster.view).records == []
    cluster.held = frozenset()
    assert cluster.apply(elect_unclean_leaders(cluster.view)) is False
    assert cluster.partition("t").leader == 2


def test_with_elr_members_below_min_isr_stay_eligible_and_lead_again() -> None:
    cluster = PureCluster(1, 2, 3, elr=True)
    cluster.topic("t", [1, 2, 3], min_insync_replicas="2")
    cluster.fence(3)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1, 2), ())
    cluster.fence(2)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1,), (2,))
    cluster.fence(1)
    empty = cluster.partition("t")
    assert (empty.leader, empty.isr, empty.elr, empty.last_known_elr) == (-1, (), (1, 2), (1,))
    cluster.unfence(2)
    led = cluster.partition("t")
    assert (led.leader, led.isr, led.elr, led.last_known_elr, led.leader_recovery_state) == (2, (2,), (1,), (), 0)
    cluster.unfence(1)
    code, _ = propose(cluster, "t", [2, 1])
    assert code == ErrorCode.NONE
    assert cluster.partition("t").elr == ()


def test_with_elr_an_unclean_restart_leaves_only_the_last_known_leader() -> None:
    cluster = PureCluster(1, elr=True)
    cluster.topic("t", [1])
    cluster.register(1, incarnation=2)
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (-1, (), (), (1,))
    cluster.unfence(1)
    led = cluster.partition("t")
    assert (led.leader, led.isr, led.last_known_elr, led.leader_recovery_state) == (1, (1,), (), RECOVERING)
    code, answer = propose(cluster, "t", [1], leader_recovery_state=0)
    assert (code, answer.leader_recovery_state) == (ErrorCode.NONE, 0)


def test_with_elr_a_clean_restart_keeps_what_a_broker_was() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.fence(2)
    assert cluster.partition("t").elr == (2,)
    cluster.register(2, incarnation=2, previous_epoch=cluster.epoch(2))
    assert cluster.partition("t").elr == (2,)
    cluster.register(2, incarnation=3, previous_epoch=-1)
    assert cluster.partition("t").elr == ()


def test_the_last_known_leader_is_not_elected_while_its_predecessor_is_held() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    cluster.register(1, incarnation=2)
    assert cluster.partition("t").last_known_elr == (1,)
    cluster.held = frozenset({1})
    cluster.unfence(1)
    assert cluster.partition("t").leader == -1
    cluster.held = frozenset()
    cluster.replay(*leader_and_isr.leaderless_after_hold(cluster.view))
    assert cluster.partition("t").leader == 1


def test_a_replica_on_a_lost_directory_cannot_lead() -> None:
    cluster = PureCluster()
    directories = [b"a" * 16, b"b" * 16]
    for broker_id in (1, 2):
        cluster.register(broker_id, log_dirs=[bytes([broker_id]) + name[1:] for name in directories])
        cluster.unfence(broker_id)
    topic_id = cluster.topic("t", [1, 2], [1, 2])
    lost, kept = (bytes([1]) + name[1:] for name in directories)

    def put(index: int, directory: bytes) -> list[Any]:
        data = assign.TopicData(topic_id=topic_id, partitions=[assign.PartitionData(partition_index=index)])
        request = assign.AssignReplicasToDirsRequest(
            broker_id=1, broker_epoch=cluster.epoch(1), directories=[assign.DirectoryData(id=directory, topics=[data])]
        )
        return [partition.error_code for partition in cluster.apply(assign_replicas_to_dirs(cluster.view, request)).directories[0].topics[0].partitions]

    assert put(0, lost) == [0]
    assert put(1, kept) == [0]
    assert put(7, kept) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    cluster.replay(*leader_and_isr.directories_offline(cluster.view, 1, cluster.epoch(1), [lost]))
    assert cluster.partition("t", 0).leader == 2
    assert cluster.partition("t", 0).isr == (2,)
    assert cluster.partition("t", 1).leader == 1
    assert cluster.image.cluster.brokers[1].directories == (kept,)
    assert leader_and_isr.directories_offline(cluster.view, 1, cluster.epoch(1), [lost]) == []
    assert put(1, lost) == [0], "a replica that turns out to be on a lost directory leaves the ISR"
    assert cluster.partition("t", 1).leader == 2


@pytest.mark.parametrize(("replicas", "leader"), [([1, 2], -1), ([1], 1)])
def test_the_last_known_leader_has_no_claim_once_its_disk_is_another_unless_it_is_alone(replicas: list[int], leader: int) -> None:
    """All die, the one that leads loses its disk: it comes back last, the others out of the in-sync set before it."""
    cluster = PureCluster(1, 2, elr=True)
    topic_id = cluster.topic("t", replicas)
    old, new = cluster.partition("t").directories[0], b"n" * 16
    cluster.replay(*_put(cluster, topic_id, 1, cluster.image.cluster.brokers[1].directories[0]).records)
    cluster.register(2, incarnation=2)
    cluster.register(1, incarnation=2, log_dirs=[new])
    cluster.unfence(2)
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (-1, (), (), (1,))
    assert old != new
    cluster.replay(*_put(cluster, topic_id, 1, new).records)
    cluster.unfence(1)
    assert cluster.partition("t").leader == leader
    assert cluster.partition("t").last_known_elr == ()


def test_a_last_known_leader_that_is_moved_keeps_its_claim() -> None:
    cluster = PureCluster(elr=True)
    for broker_id in (1, 2):
        cluster.register(broker_id, log_dirs=[bytes([broker_id]) * 16, bytes([broker_id + 10]) * 16])
        cluster.unfence(broker_id)
    topic_id = cluster.topic("t", [1, 2])
    cluster.replay(*_put(cluster, topic_id, 1, b"\x01" * 16).records)
    for broker_id in (2, 1):
        cluster.register(broker_id, incarnation=2, log_dirs=[bytes([broker_id]) * 16, bytes([broker_id + 10]) * 16])
    cluster.replay(*_put(cluster, topic_id, 1, b"\x0b" * 16).records)
    cluster.unfence(1)
    assert cluster.partition("t").leader == 1


def _put(cluster: PureCluster, topic_id: bytes, broker_id: int, directory: bytes) -> Any:
    """A broker tells where its replica of partition 0 is."""
    data = assign.TopicData(topic_id=topic_id, partitions=[assign.PartitionData(partition_index=0)])
    directories = [assign.DirectoryData(id=directory, topics=[data])]
    request = assign.AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=cluster.epoch(broker_id), directories=directories)
    return assign_replicas_to_dirs(cluster.view, request)


def test_cordoned_directories_take_no_new_replicas() -> None:
    cluster = PureCluster(1, 2)
    assert len(leader_and_isr.directories_cordoned(cluster.view, 1, cluster.epoch(1), None)) == 0
    cluster.replay(*leader_and_isr.directories_cordoned(cluster.view, 1, cluster.epoch(1), [b"\x01" * 16]))
    assert leader_and_isr.directories_cordoned(cluster.view, 1, cluster.epoch(1), [b"\x01" * 16]) == []
    with pytest.raises(AssertionError, match="all its log directories are cordoned"):
        cluster.topic("t", [1])


# AlterPartition


def test_a_leader_shrinks_and_grows_its_isr() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    code, answer = propose(cluster, "t", [1])
    assert code == ErrorCode.NONE
    assert (answer.leader_id, answer.leader_epoch, answer.isr, answer.partition_epoch) == (1, 0, [1], 1)
    code, answer = propose(cluster, "t", [1, 2], version=2)
    assert (code, answer.isr, answer.partition_epoch) == (ErrorCode.NONE, [1, 2], 2)
    code, answer = propose(cluster, "t", [1, 2])
    assert (code, answer.partition_epoch) == (ErrorCode.NONE, 2), "the same ISR changes nothing"


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1], {"leader_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ([1], {"partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ([1], {"leader_epoch": 6}, ErrorCode.FENCED_LEADER_EPOCH),
        ([2], {"sender": 2}, ErrorCode.INVALID_REQUEST),
        ([1], {"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([2], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([1, 9], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1, 3], {}, ErrorCode.INELIGIBLE_REPLICA),
        ([1], {"new_isr_with_epochs": [BrokerState(broker_id=1), BrokerState(broker_id=2, broker_epoch=5)]}, ErrorCode.INELIGIBLE_REPLICA),
        ([1], {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_a_leader_may_not_propose(isr: list[int], fields: dict[str, Any], code: int) -> None:
    cluster = PureCluster(1, 2, 3)
    topic_id = cluster.topic("t", [1, 2, 3])
    for _ in range(7):
        cluster.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=1, isr=[1, 2]))
    cluster.fence(3)
    before = cluster.partition("t")
    assert propose(cluster, "t", isr, **fields)[0] == code
    assert cluster.partition("t") == before


def test_a_stale_broker_may_propose_nothing() -> None:
    cluster = PureCluster(1)
    with pytest.raises(ApiError) as refused:
        alter_partition(cluster.view, AlterPartitionRequest(broker_id=1, broker_epoch=3), ControllerRequestContext(3))
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_proposals_for_an_unknown_topic_are_answered_one_by_one() -> None:
    cluster = PureCluster(1)
    topics = [TopicData(topic_id=b"x" * 16, partitions=[PartitionData(partition_index=3)])]
    answer = alter_partition(cluster.view, AlterPartitionRequest(broker_id=1, broker_epoch=cluster.epoch(1), topics=topics), ControllerRequestContext(3))
    assert answer.response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


# ElectLeaders


def elect(cluster: PureCluster, kind: int, *partitions: int, name: str = "t") -> list[tuple[int, int]]:
    topics = [TopicPartitions(topic=name, partitions=list(partitions))] if partitions else None
    answer = cluster.apply(elect_leaders(cluster.view, ElectLeadersRequest(election_type=kind, topic_partitions=topics)))
    return [(result.partition_id, result.error_code) for topic in answer.replica_election_results for result in topic.partition_result]


def test_elections_by_request() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2], [2, 1])
    assert elect(cluster, 0, 0, 5) == [(0, ErrorCode.ELECTION_NOT_NEEDED), (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert elect(cluster, 0, 0, name="no") == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    cluster.fence(1)
    cluster.unfence(1)
    assert elect(cluster, 0, 0) == [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)], "not in sync yet"
    assert elect(cluster, 0) == [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)], "those that need none are left out"
    propose(cluster, "t", [2, 1])
    assert elect(cluster, 0) == [(0, ErrorCode.NONE)]
    assert cluster.partition("t").leader == 1


def test_an_unclean_election_by_request_asks_no_policy() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    assert elect(cluster, 1, 0) == [(0, ErrorCode.ELECTION_NOT_NEEDED)]
    cluster.fence(2)
    cluster.fence(1)
    assert elect(cluster, 1, 0) == [(0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
    cluster.unfence(2)
    cluster.held = frozenset({1})
    assert elect(cluster, 1, 0) == [(0, ErrorCode.NONE)]
    assert cluster.partition("t").leader_recovery_state == RECOVERING
    with pytest.raises(ApiError, match="Unknown election type 7"):
        elect(cluster, 7, 0)


# Reassignments


def move(cluster: PureCluster, replicas: list[int] | None, *, index: int = 0, name: str = "t", may_change_factor: bool = True) -> tuple[int, str | None]:
    topics = [ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])]
    request = AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=may_change_factor)
    result = cluster.apply(alter_partition_reassignments(cluster.view, request)).responses[0].partitions[0]
    return result.error_code, result.error_message


def ongoing(cluster: PureCluster) -> list[tuple[int, list[int], list[int], list[int]]]:
    answer = list_partition_reassignments(cluster.image, ListPartitionReassignmentsRequest())
    return [(p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas) for topic in answer.topics for p in topic.partitions]


def test_a_partition_moves_in_two_steps() -> None:
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2])
    assert move(cluster, [3, 4]) == (0, None)
    moving = cluster.partition("t")
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas, moving.leader) == ((3, 4, 1, 2), (3, 4), (1, 2), 1)
    assert moving.leader_epoch == 0
    assert ongoing(cluster) == [(0, [3, 4, 1, 2], [3, 4], [1, 2])]
    assert propose(cluster, "t", [1, 2, 3])[0] == ErrorCode.NONE
    code, _ = propose(cluster, "t", [1, 2, 3, 4])
    assert code == ErrorCode.NEW_LEADER_ELECTED
    done = cluster.partition("t")
    assert (done.replicas, done.isr, done.leader, done.adding_replicas, done.removing_replicas) == ((3, 4), (3, 4), 3, (), ())
    assert ongoing(cluster) == []


def test_a_move_that_only_removes_ends_at_once_and_fences_the_removed_replica() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2, 3])
    assert move(cluster, [1, 2]) == (0, None)
    after = cluster.partition("t")
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((1, 2), (1, 2), 1, 1)


def test_a_shrinking_move_waits_for_every_target_to_be_in_sync() -> None:
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2, 3])
    propose(cluster, "t", [1])
    move(cluster, [2, 4])
    assert propose(cluster, "t", [1, 4])[0] == ErrorCode.NONE
    assert cluster.partition("t").is_reassigning
    propose(cluster, "t", [1, 4, 2])
    assert cluster.partition("t").replicas == (2, 4)


def test_a_move_may_be_cancelled() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2])
    assert move(cluster, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    move(cluster, [3, 2])
    assert move(cluster, None) == (0, None)
    after = cluster.partition("t")
    assert (after.replicas, after.isr, after.is_reassigning) == ((2, 1), (1, 2), False)


def test_a_change_of_mind_during_a_move() -> None:
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2])
    move(cluster, [3, 4])
    move(cluster, [3, 2])
    changed = cluster.partition("t")
    assert (changed.replicas, changed.adding_replicas, changed.removing_replicas) == ((3, 2, 1, 4), (3,), (1, 4))
    propose(cluster, "t", [1, 2, 3])
    assert cluster.partition("t").replicas == (3, 2)


def test_cancelling_needs_the_policy_when_no_old_replica_is_in_sync() -> None:
    cluster = PureCluster(1, 2)
    topic_id = cluster.topic("t", [1])
    move(cluster, [2])
    cluster.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[2], leader=2))
    code, message = move(cluster, None)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message == "Unable to revert partition assignment for t:0 because it would require an unclean leader election."
    cluster.configure(2, "t", unclean_leader_election_enable="true")
    assert move(cluster, None) == (0, None)
    assert (cluster.partition("t").replicas, cluster.partition("t").isr) == ((1,), (1,))
    assert cluster.partition("t").leader_recovery_state == RECOVERING


@pytest.mark.parametrize(
    ("replicas", "fields", "code", "message"),
    [
        ([1], {"name": "no"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named no."),
        ([1], {"index": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:3."),
        ([], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."),
        ([1], {"may_change_factor": False}, ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 2 to 1"),
    ],
)
def test_moves_that_are_refused(replicas: list[int], fields: dict[str, Any], code: int, message: str) -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    assert move(cluster, replicas, **fields) == (code, message)


def test_a_partition_named_twice_moves_as_it_was_named_first() -> None:
    """Both would be made from the same moment, and together remove a replica that either wants to keep."""
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2])
    partitions = [ReassignablePartition(partition_index=0, replicas=replicas) for replicas in ([3, 2], [1, 2, 4])]
    topics = [ReassignableTopic(name="t", partitions=[partition]) for partition in partitions]
    answer = cluster.apply(alter_partition_reassignments(cluster.view, AlterPartitionReassignmentsRequest(topics=topics)))
    assert [each.partitions[0].error_code for each in answer.responses] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    after = cluster.partition("t")
    assert (after.replicas, after.adding_replicas, after.removing_replicas) == ((3, 2, 1), (3,), (1,))


def test_a_held_last_known_leader_may_lead_when_it_returns_itself() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    cluster.register(1, incarnation=2)
    assert (cluster.partition("t").leader, cluster.partition("t").last_known_elr) == (-1, (1,))
    heartbeats = BrokerHeartbeatManager(lambda: 100.0, 9_000)
    heartbeats.hold_until(1, 105.0)
    cluster.held = heartbeats.held
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=cluster.epoch(1), current_metadata_offset=9)
    cluster.apply(process_heartbeat(cluster.view, request, heartbeats, 5))
    assert (cluster.partition("t").leader, cluster.partition("t").leader_recovery_state) == (1, RECOVERING)
    assert heartbeats.held == frozenset()


def test_a_broker_that_returns_without_a_directory_does_not_lead_what_was_in_it() -> None:
    cluster = PureCluster(1)
    cluster.topic("t", [1])
    cluster.register(1, incarnation=2, log_dirs=[b"new directory id"])
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    cluster.register(1, incarnation=3, log_dirs=[b"\x01" * 16])
    cluster.unfence(1)
    assert cluster.partition("t").leader == 1


def test_an_unclean_election_leaves_nobody_else_eligible() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.fence(1)
    cluster.fence(2)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((), (1, 2))
    topic_id = cluster.image.topics.id_by_name["t"]
    cluster.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, eligible_leader_replicas=[2], last_known_elr=[]))
    cluster.unfence(1)
    assert cluster.partition("t").leader == -1
    assert elect(cluster, 1, 0) == [(0, ErrorCode.NONE)]
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.elr, after.leader_recovery_state) == (1, (1,), (), RECOVERING)
