"""Who leads: the choice in every situation, with and without ELR, and elections by request."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.controller.brokers.broker_heartbeat import note_heartbeat, process_heartbeat
from kraft.controller.brokers.heartbeat_manager import BrokerHeartbeatManager
from kraft.controller.replication_control import leader_and_isr
from kraft.controller.replication_control.elect_leaders import elect_unclean_leaders
from kraft.metadata.image.partition_registration import RECOVERED
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.world.steps import at_once
from tests.unit.controller.partition_requests import RECOVERING, elect, propose
from tests.unit.controller.pure_cluster import PureCluster


def test_fencing_removes_a_broker_from_every_isr_and_elects_the_next_replica_in_order() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2, 3], [2, 1, 3])
    cluster.fence(1)
    first, second = cluster.partition("t", 0), cluster.partition("t", 1)
    assert (first.leader, first.isr, first.leader_epoch, first.partition_epoch) == (2, (2, 3), 1, 1)
    assert (second.leader, second.isr, second.leader_epoch, second.partition_epoch) == (2, (2, 3), 0, 1), (
        "no epoch bump for an ISR that shrinks (KIP-966)"
    )


def test_without_elr_the_last_isr_member_stays_in_the_isr_and_alone_may_lead() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    cluster.fence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    cluster.unfence(2)
    assert cluster.partition("t").leader == -1
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_recovery_state) == (1, 0)


def test_an_unclean_election_happens_only_where_the_topic_config_allows_it() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    cluster.topic("u", [1, 2], unclean_leader_election_enable="true")
    cluster.fence(2)
    cluster.fence(1)
    cluster.unfence(2)
    assert cluster.partition("t").leader == -1
    unclean = cluster.partition("u")
    assert (unclean.leader, unclean.isr, unclean.leader_recovery_state) == (2, (2,), RECOVERING)


def test_the_cluster_default_may_allow_unclean_elections() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    cluster.topic("kept", [1, 2], unclean_leader_election_enable="false")
    cluster.configure(4, "", unclean_leader_election_enable="true")
    cluster.fence(2)
    cluster.fence(1)
    cluster.unfence(2)
    assert cluster.partition("t").leader == 2
    assert cluster.partition("kept").leader == -1


def test_the_periodic_scan_elects_leaders_for_topics_that_now_allow_unclean_elections() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    cluster.fence(1)
    cluster.unfence(2)
    assert at_once(elect_unclean_leaders(cluster.view)).records == []
    cluster.configure(2, "t", unclean_leader_election_enable="true")
    cluster.held = frozenset({1})
    assert at_once(elect_unclean_leaders(cluster.view)).records == []
    cluster.held = frozenset()
    assert cluster.apply(elect_unclean_leaders(cluster.view)) is False
    assert cluster.partition("t").leader == 2


def test_with_elr_members_that_left_the_isr_below_min_isr_stay_eligible_and_lead_again() -> None:
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
    assert (led.leader, led.isr, led.last_known_elr, led.leader_recovery_state) == (1, (1,), (), RECOVERED), (
        "a sole replica has all that is left"
    )


def test_with_elr_a_clean_restart_keeps_isr_and_elr_membership() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.fence(2)
    assert cluster.partition("t").elr == (2,)
    cluster.register(2, incarnation=2, previous_epoch=cluster.epoch(2))
    assert cluster.partition("t").elr == (2,)
    cluster.register(2, incarnation=3, previous_epoch=-1)
    assert cluster.partition("t").elr == ()


def unregister(cluster: PureCluster, broker_id: int) -> None:
    cluster.replay(*at_once(leader_and_isr.broker_unregistered(cluster.view, broker_id, cluster.epoch(broker_id))))


def test_an_unregistered_broker_leaves_the_elr() -> None:
    cluster = PureCluster(1, 2, 3, elr=True)
    cluster.topic("t", [1, 2, 3], min_insync_replicas="3")
    cluster.fence(2)
    assert cluster.partition("t").elr == (2,)
    unregister(cluster, 2)
    assert (cluster.partition("t").elr, cluster.partition("t").isr) == ((), (1, 3))


def test_a_sole_isr_member_is_elected_when_unfenced_if_other_replicas_are_unregistered() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    cluster.register(1, incarnation=2)
    cluster.unfence(1)
    assert cluster.partition("t").leader == -1, "2 may return with what 1 has lost"
    cluster.fence(1)
    unregister(cluster, 2)
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_recovery_state) == (1, RECOVERING)


def test_the_last_known_leader_is_not_elected_while_its_predecessor_is_held() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    unregister(cluster, 2)
    cluster.register(1, incarnation=2)
    assert cluster.partition("t").last_known_elr == (1,)
    cluster.held = frozenset({1})
    cluster.unfence(1)
    assert cluster.partition("t").leader == -1
    cluster.held = frozenset()
    cluster.replay(*at_once(leader_and_isr.leaderless_after_hold(cluster.view)))
    assert cluster.partition("t").leader == 1


def test_a_held_last_known_leader_may_lead_when_it_returns() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    unregister(cluster, 2)
    cluster.register(1, incarnation=2)
    assert (cluster.partition("t").leader, cluster.partition("t").last_known_elr) == (-1, (1,))
    heartbeats = BrokerHeartbeatManager(lambda: 100.0, 9_000)
    heartbeats.hold_until(1, 105.0)
    cluster.held = heartbeats.held
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=cluster.epoch(1), current_metadata_offset=9)
    note_heartbeat(heartbeats, request, cluster.apply(process_heartbeat(cluster.view, request, heartbeats, 5)), 5)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_recovery_state) == (1, RECOVERING)
    assert heartbeats.held == frozenset()


def test_leader_elections_by_request() -> None:
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


def test_a_requested_unclean_election_ignores_the_topic_config() -> None:
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


def test_an_unclean_election_clears_the_elr() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.fence(1)
    cluster.fence(2)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((), (1, 2))
    topic_id = cluster.image.topics.id_by_name["t"]
    cluster.replay(
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, eligible_leader_replicas=[2], last_known_elr=[])
    )
    cluster.unfence(1)
    assert cluster.partition("t").leader == -1
    assert elect(cluster, 1, 0) == [(0, ErrorCode.NONE)]
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.elr, after.leader_recovery_state) == (1, (1,), (), RECOVERING)
