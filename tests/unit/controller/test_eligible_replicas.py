"""Who stays eligible for leadership while replicas come and go."""

from __future__ import annotations

from kraft.protocol.error_codes import ErrorCode
from tests.unit.controller.partition_requests import move, propose, put_replica
from tests.unit.controller.pure_cluster import PureCluster
from tests.unit.controller.unclean.replies import recover

FORMER, OTHER = bytes([7]) * 16, bytes([8]) * 16


def test_a_replica_removed_by_a_reassignment_leaves_the_elr_even_if_assigned_again() -> None:
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


def test_a_replica_recreated_in_another_directory_leaves_the_elr() -> None:
    """It came back in good order, without the directory that had its log: what it is assigned to now is empty."""
    cluster = PureCluster(2, 3, elr=True)
    cluster.register(1, log_dirs=[FORMER])
    cluster.unfence(1)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    put_replica(cluster, 1, FORMER)
    cluster.fence(1)
    assert cluster.partition("t").elr == (1,)
    cluster.register(1, incarnation=2, previous_epoch=cluster.epoch(1), log_dirs=[OTHER])
    put_replica(cluster, 1, OTHER)
    assert cluster.partition("t").elr == ()
    cluster.unfence(1)
    cluster.fence(2)
    assert (cluster.partition("t").leader, cluster.partition("t").elr) == (-1, (2,))


def last_in_sync() -> PureCluster:
    """Broker 1 led t-0 last, in a directory of its own, and 2 is eligible beside it: both have everything. 3 has
    not."""
    cluster = PureCluster(2, 3, elr=True)
    cluster.register(1, log_dirs=[FORMER])
    cluster.unfence(1)
    cluster.topic("t", [1, 2, 3], min_insync_replicas="2")
    put_replica(cluster, 1, FORMER)
    for broker in (3, 2):
        cluster.fence(broker)
    cluster.register(3, incarnation=2)
    cluster.unfence(3)
    cluster.fence(1)
    known = cluster.partition("t")
    assert (known.leader, known.isr, known.elr, known.last_known_elr) == (-1, (), (1, 2), (1,))
    return cluster


def return_on_an_empty_disk(cluster: PureCluster) -> None:
    cluster.register(1, incarnation=3, log_dirs=[OTHER])
    cluster.unfence(1)
    put_replica(cluster, 1, OTHER)


def crash(cluster: PureCluster, broker: int) -> None:
    cluster.register(broker, incarnation=3)
    cluster.unfence(broker)


def test_an_elr_member_leads_when_the_last_leader_lost_its_disk() -> None:
    """It crashed, so that it may lack records; but nobody has more."""
    cluster = last_in_sync()
    return_on_an_empty_disk(cluster)
    assert (cluster.partition("t").leader, cluster.partition("t").elr, cluster.partition("t").last_known_elr) == (
        -1,
        (2,),
        (),
    )
    crash(cluster, 2)
    recover(cluster)
    assert (cluster.partition("t").leader, cluster.partition("t").isr, cluster.partition("t").last_known_elr) == (
        2,
        (2,),
        (),
    )


def test_an_elr_member_leads_only_once_the_last_leader_is_proven_to_have_lost_its_disk() -> None:
    cluster = last_in_sync()
    crash(cluster, 2)
    waiting = cluster.partition("t")
    assert (waiting.leader, waiting.elr, waiting.last_known_elr) == (-1, (1,), (1, 2))
    return_on_an_empty_disk(cluster)
    recover(cluster)
    assert (cluster.partition("t").leader, cluster.partition("t").isr, cluster.partition("t").last_known_elr) == (
        2,
        (2,),
        (),
    )


def test_a_crashed_last_leader_is_elected_before_replicas_with_no_more_records() -> None:
    cluster = last_in_sync()
    crash(cluster, 2)
    cluster.register(1, incarnation=3, log_dirs=[FORMER])
    assert (cluster.partition("t").leader, cluster.partition("t").elr, cluster.partition("t").last_known_elr) == (
        -1,
        (),
        (1, 2),
    )
    cluster.unfence(1)
    recover(cluster)
    assert cluster.partition("t").leader == 1
