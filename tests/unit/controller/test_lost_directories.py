"""What a replica's directory means for its claim to lead: one that is lost, one that is recreated on another disk
(KIP-858), and one that is cordoned."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.controller.brokers.broker_heartbeat import process_heartbeat
from kraft.controller.brokers.heartbeat_manager import BrokerHeartbeatManager
from kraft.controller.replication_control import leader_and_isr
from kraft.metadata.image.partition_registration import LOST_DIRECTORY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.world.steps import at_once
from tests.unit.controller.partition_requests import RECOVERING, elect, propose, put_replica
from tests.unit.controller.pure_cluster import PureCluster
from tests.unit.controller.unclean.replies import recover

LOST, KEPT, NEW = b"l" * 16, b"k" * 16, b"n" * 16


def beat(cluster: PureCluster, broker_id: int, **fields: Any) -> Any:
    request = BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=cluster.epoch(broker_id), current_metadata_offset=9, **fields
    )
    return cluster.apply(
        at_once(process_heartbeat(cluster.view, request, BrokerHeartbeatManager(lambda: 100.0, 9_000), 5))
    ).response


def with_two_directories(*replicas: int, elr: bool = False) -> PureCluster:
    """Broker 1 has two directories, and its replica of t-0 in one of them; broker 2 has one."""
    cluster = PureCluster(2, elr=elr)
    cluster.register(1, log_dirs=[LOST, KEPT])
    cluster.unfence(1)
    cluster.topic("t", list(replicas))
    put_replica(cluster, 1, LOST)
    return cluster


def test_an_unfenced_broker_does_not_lead_partitions_in_a_lost_directory() -> None:
    cluster = with_two_directories(1)
    cluster.fence(1)
    assert not beat(cluster, 1, offline_log_dirs=[LOST]).is_fenced
    assert cluster.image.cluster.brokers[1].directories == (KEPT,)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))


def test_a_broker_that_lost_every_directory_stays_fenced() -> None:
    cluster = with_two_directories(1)
    cluster.fence(1)
    assert beat(cluster, 1, offline_log_dirs=[LOST, KEPT]).is_fenced
    assert cluster.partition("t").leader == -1


@pytest.mark.parametrize("wish", ["want_shut_down", "want_fence"])
def test_fencing_a_broker_with_a_lost_directory_changes_each_leadership_once(wish: str) -> None:
    cluster = with_two_directories(1, 2)
    before = cluster.partition("t")
    beat(cluster, 1, offline_log_dirs=[LOST], **{wish: True})
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2,), before.leader_epoch + 1)


@pytest.mark.parametrize(("replicas", "leader", "isr"), [((1, 2), -1, ()), ((1,), 1, (1,))])
def test_without_elr_the_last_isr_member_on_a_new_disk_is_elected_only_as_the_sole_replica(
    replicas: tuple[int, ...], leader: int, isr: tuple[int, ...]
) -> None:
    cluster = with_two_directories(*replicas)
    cluster.fence(2)
    cluster.register(1, incarnation=2, log_dirs=[NEW, KEPT])
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    put_replica(cluster, 1, NEW)
    cluster.unfence(1)
    cluster.unfence(2)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (leader, isr)


def test_a_partition_whose_last_candidate_lost_its_disk_gets_a_leader_by_unclean_election() -> None:
    cluster = with_two_directories(1, 2)
    cluster.fence(2)
    cluster.register(1, incarnation=2, log_dirs=[NEW, KEPT])
    put_replica(cluster, 1, NEW)
    cluster.unfence(2)
    assert elect(cluster, 1, 0) == [(0, ErrorCode.NONE)]
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERING)


def test_a_broker_that_returns_with_its_disk_leads_again() -> None:
    cluster = with_two_directories(1, 2)
    cluster.fence(2)
    cluster.register(1, incarnation=2, log_dirs=[KEPT])
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    cluster.register(1, incarnation=3, log_dirs=[LOST, KEPT])
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (1, (1,))


def come_back(cluster: PureCluster, broker_id: int, *, clean: bool, log_dirs: list[bytes]) -> None:
    previous = cluster.epoch(broker_id) if clean else -1
    cluster.register(broker_id, incarnation=cluster.epoch(broker_id), previous_epoch=previous, log_dirs=log_dirs)


CLAIMS = {
    "last in sync, without ELR": (False, True, "isr"),
    "eligible": (True, True, "elr"),
    "last known leader": (True, False, "last_known_elr"),
}
"""Whether there is an ELR, whether broker 1 shuts down in good order, and what it is a member of then."""


@pytest.mark.parametrize(("mended", "leader"), [(LOST, 1), (NEW, -1)], ids=["repaired", "replaced"])
@pytest.mark.parametrize(("elr", "clean", "claim"), CLAIMS.values(), ids=CLAIMS)
def test_a_replica_reported_lost_may_lead_with_its_repaired_disk_but_not_with_another(
    elr: bool, clean: bool, claim: str, mended: bytes, leader: int
) -> None:
    """Broker 1 leads alone, ends, and starts while one of its disks cannot be read: then with that disk, or another
    in its place."""
    cluster = with_two_directories(1, 2, elr=elr)
    cluster.fence(2)
    come_back(cluster, 2, clean=False, log_dirs=[bytes([2]) * 16])
    cluster.unfence(2)
    come_back(cluster, 1, clean=clean, log_dirs=[KEPT])
    cluster.unfence(1)
    before = cluster.partition("t")
    assert put_replica(cluster, 1, LOST_DIRECTORY) == ErrorCode.NONE
    assert cluster.partition("t") == before
    assert getattr(before, claim) == (1,)
    come_back(cluster, 1, clean=True, log_dirs=[KEPT, mended])
    put_replica(cluster, 1, mended)
    cluster.unfence(1)
    recover(cluster)
    assert cluster.partition("t").leader == leader


def test_a_replica_joins_the_isr_once_the_controller_knows_its_directory() -> None:
    """So a member whose directory is not online has not started again since it joined."""
    cluster = with_two_directories(1, 2)
    cluster.register(1, incarnation=2, log_dirs=[NEW, KEPT])
    cluster.unfence(1)
    assert propose(cluster, "t", [2, 1])[0] == ErrorCode.INELIGIBLE_REPLICA
    put_replica(cluster, 1, NEW)
    assert propose(cluster, "t", [2, 1])[0] == ErrorCode.NONE
    assert cluster.partition("t").isr == (2, 1)


def test_a_replica_on_a_lost_directory_cannot_lead() -> None:
    cluster = PureCluster()
    directories = [b"a" * 16, b"b" * 16]
    for broker_id in (1, 2):
        cluster.register(broker_id, log_dirs=[bytes([broker_id]) + name[1:] for name in directories])
        cluster.unfence(broker_id)
    cluster.topic("t", [1, 2], [1, 2])
    lost, kept = (bytes([1]) + name[1:] for name in directories)
    assert put_replica(cluster, 1, lost, index=0) == ErrorCode.NONE
    assert put_replica(cluster, 1, kept, index=1) == ErrorCode.NONE
    assert put_replica(cluster, 1, kept, index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.replay(*at_once(leader_and_isr.directories_offline(cluster.view, 1, cluster.epoch(1), [lost])))
    assert cluster.partition("t", 0).leader == 2
    assert cluster.partition("t", 0).isr == (2,)
    assert cluster.partition("t", 1).leader == 1
    assert cluster.image.cluster.brokers[1].directories == (kept,)
    assert at_once(leader_and_isr.directories_offline(cluster.view, 1, cluster.epoch(1), [lost])) == []
    assert put_replica(cluster, 1, lost, index=1) == ErrorCode.NONE, (
        "a replica that turns out to be on a lost directory leaves the ISR"
    )
    assert cluster.partition("t", 1).leader == 2


@pytest.mark.parametrize(("replicas", "leader"), [([1, 2], -1), ([1], 1)])
def test_the_last_known_leader_on_a_new_disk_is_elected_only_as_the_sole_replica(
    replicas: list[int], leader: int
) -> None:
    """All die, the one that leads loses its disk: it comes back last, the others out of the in-sync set before it."""
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", replicas)
    old, new = cluster.partition("t").directories[0], b"n" * 16
    put_replica(cluster, 1, cluster.image.cluster.brokers[1].directories[0])
    cluster.register(2, incarnation=2)
    cluster.register(1, incarnation=2, log_dirs=[new])
    cluster.unfence(2)
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (-1, (), (), (1,))
    assert old != new
    put_replica(cluster, 1, new)
    cluster.unfence(1)
    assert cluster.partition("t").leader == leader
    assert cluster.partition("t").last_known_elr == ()


def test_a_last_known_leader_moved_between_directories_stays_electable() -> None:
    cluster = PureCluster(elr=True)
    for broker_id in (1, 2):
        cluster.register(broker_id, log_dirs=[bytes([broker_id]) * 16, bytes([broker_id + 10]) * 16])
        cluster.unfence(broker_id)
    cluster.topic("t", [1, 2])
    put_replica(cluster, 1, b"\x01" * 16)
    for broker_id in (2, 1):
        cluster.register(broker_id, incarnation=2, log_dirs=[bytes([broker_id]) * 16, bytes([broker_id + 10]) * 16])
    put_replica(cluster, 1, b"\x0b" * 16)
    cluster.unfence(1)
    recover(cluster)
    assert cluster.partition("t").leader == 1


def test_a_broker_that_returns_without_a_directory_does_not_lead_its_partitions() -> None:
    cluster = PureCluster(1)
    cluster.topic("t", [1])
    cluster.register(1, incarnation=2, log_dirs=[b"new directory id"])
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    cluster.register(1, incarnation=3, log_dirs=[b"\x01" * 16])
    cluster.unfence(1)
    assert cluster.partition("t").leader == 1


def test_cordoned_directories_get_no_new_replicas() -> None:
    cluster = PureCluster(1, 2)
    assert len(leader_and_isr.directories_cordoned(cluster.view, 1, cluster.epoch(1), None)) == 0
    cluster.replay(*leader_and_isr.directories_cordoned(cluster.view, 1, cluster.epoch(1), [b"\x01" * 16]))
    assert leader_and_isr.directories_cordoned(cluster.view, 1, cluster.epoch(1), [b"\x01" * 16]) == []
    with pytest.raises(AssertionError, match="all its log directories are cordoned"):
        cluster.topic("t", [1])
