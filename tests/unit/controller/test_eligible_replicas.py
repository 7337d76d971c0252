"""Who stays eligible for leadership while replicas come and go."""

from __future__ import annotations

from kraft.protocol.error_codes import ErrorCode
from tests.unit.controller.partition_requests import move, propose, put_replica
from tests.unit.controller.pure_cluster import PureCluster


def test_a_replica_that_a_move_took_away_is_eligible_no_longer_not_even_when_it_is_assigned_again() -> None:
    cluster = PureCluster(1, 2, 3, 4, elr=True)
    cluster.topic("t", [3, 4, 1], min_insync_replicas="2")
    assert move(cluster, [4, 2, 1]) == (ErrorCode.NONE, None)
    cluster.fence(4)
    cluster.fence(1)
    propose(cluster, "t", [3, 2])
    moved = cluster.partition("t")
    assert (moved.replicas, moved.isr, moved.elr, moved.leader) == ((4, 2, 1), (2,), (1,), 2)
    cluster.fence(2)
    assert move(cluster, [2, 1, 3]) == (ErrorCode.NONE, None)
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
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    put_replica(cluster, 1, former)
    cluster.fence(1)
    assert cluster.partition("t").elr == (1,)
    cluster.register(1, incarnation=2, previous_epoch=cluster.epoch(1), log_dirs=[other])
    put_replica(cluster, 1, other)
    assert cluster.partition("t").elr == ()
    cluster.unfence(1)
    cluster.fence(2)
    assert (cluster.partition("t").leader, cluster.partition("t").elr) == (-1, (2,))
