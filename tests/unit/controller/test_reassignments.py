"""Reassignments: how a partition moves from replicas to others, changes its mind, and goes back."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.controller.replication_control.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.controller.partition_requests import RECOVERING, move, ongoing, propose
from tests.unit.controller.pure_cluster import PureCluster


def test_a_reassignment_adds_replicas_and_then_removes_the_old_ones() -> None:
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2])
    assert move(cluster, [3, 4]) == (0, None)
    moving = cluster.partition("t")
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas, moving.leader) == (
        (3, 4, 1, 2),
        (3, 4),
        (1, 2),
        1,
    )
    assert moving.leader_epoch == 0
    assert ongoing(cluster) == [(0, [3, 4, 1, 2], [3, 4], [1, 2])]
    assert propose(cluster, "t", [1, 2, 3])[0] == ErrorCode.NONE
    code, _ = propose(cluster, "t", [1, 2, 3, 4])
    assert code == ErrorCode.NEW_LEADER_ELECTED
    done = cluster.partition("t")
    assert (done.replicas, done.isr, done.leader, done.adding_replicas, done.removing_replicas) == (
        (3, 4),
        (3, 4),
        3,
        (),
        (),
    )
    assert ongoing(cluster) == []


def test_reassignments_of_a_topic_named_twice_are_listed_for_each_entry() -> None:
    """As Kafka tells them."""
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2], [1, 2])
    move(cluster, [3, 4])
    entries = [ListPartitionReassignmentsTopics(name="t", partition_indexes=indexes) for indexes in ([0], [1], [0, 7])]
    answer = list_partition_reassignments(cluster.image, ListPartitionReassignmentsRequest(topics=entries))
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics] == [
        ("t", [0]),
        ("t", [0]),
    ]


def test_a_reassignment_that_only_removes_replicas_completes_immediately() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2, 3])
    assert move(cluster, [1, 2]) == (0, None)
    after = cluster.partition("t")
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((1, 2), (1, 2), 1, 1)


def test_a_shrinking_reassignment_waits_for_every_target_to_be_in_sync() -> None:
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2, 3])
    propose(cluster, "t", [1])
    move(cluster, [2, 4])
    assert propose(cluster, "t", [1, 4])[0] == ErrorCode.NONE
    assert cluster.partition("t").is_reassigning
    propose(cluster, "t", [1, 4, 2])
    assert cluster.partition("t").replicas == (2, 4)


def test_a_reassignment_may_be_cancelled() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2])
    assert move(cluster, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    move(cluster, [3, 2])
    assert move(cluster, None) == (0, None)
    after = cluster.partition("t")
    assert (after.replicas, after.isr, after.is_reassigning) == ((2, 1), (1, 2), False)


def test_a_reassignment_in_progress_can_be_given_other_targets() -> None:
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2])
    move(cluster, [3, 4])
    move(cluster, [3, 2])
    changed = cluster.partition("t")
    assert (changed.replicas, changed.adding_replicas, changed.removing_replicas) == ((3, 2, 1, 4), (3,), (1, 4))
    propose(cluster, "t", [1, 2, 3])
    assert cluster.partition("t").replicas == (3, 2)


def test_cancelling_needs_unclean_election_enabled_when_no_old_replica_is_in_sync() -> None:
    cluster = PureCluster(1, 2)
    topic_id = cluster.topic("t", [1])
    move(cluster, [2])
    cluster.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[2], leader=2))
    code, message = move(cluster, None)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert (
        message == "Unable to revert partition assignment for t:0 because it would require an unclean leader election."
    )
    cluster.configure(2, "t", unclean_leader_election_enable="true")
    assert move(cluster, None) == (0, None)
    assert (cluster.partition("t").replicas, cluster.partition("t").isr) == ((1,), (1,))
    assert cluster.partition("t").leader_recovery_state == RECOVERING


@pytest.mark.parametrize(
    ("replicas", "fields", "code", "message"),
    [
        ([1], {"name": "no"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named no."),
        ([1], {"index": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:3."),
        (
            [],
            {},
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            [1],
            {"may_change_factor": False},
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "The replication factor is changed from 2 to 1",
        ),
    ],
)
def test_invalid_reassignments_are_refused(
    replicas: list[int], fields: dict[str, Any], code: int, message: str
) -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    assert move(cluster, replicas, **fields) == (code, message)


def test_the_first_reassignment_of_a_partition_named_twice_applies() -> None:
    """Both would be made from the same moment, and together remove a replica that either wants to keep."""
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2])
    partitions = [ReassignablePartition(partition_index=0, replicas=replicas) for replicas in ([3, 2], [1, 2, 4])]
    topics = [ReassignableTopic(name="t", partitions=[partition]) for partition in partitions]
    answer = cluster.apply(
        alter_partition_reassignments(cluster.view, AlterPartitionReassignmentsRequest(topics=topics))
    )
    assert [each.partitions[0].error_code for each in answer.responses] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    after = cluster.partition("t")
    assert (after.replicas, after.adding_replicas, after.removing_replicas) == ((3, 2, 1), (3,), (1,))
