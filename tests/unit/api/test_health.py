"""The verdict on a cluster: what makes it unhealthy, and that every reason says what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kraft_http.health import LISTED_MAX, VoterFacts, judge
from kraft_http.ports import BrokerFacts, ClusterFacts, DrainFacts, PartitionFacts

FINE = ClusterFacts(
    controller_id=1,
    controller_epoch=4,
    voters=(1, 2, 3),
    brokers=(BrokerFacts(node_id=1, host="a", port=1), BrokerFacts(node_id=2, host="b", port=2)),
    topics_count=3,
    partitions_count=9,
    impaired=(),
    disk_free_bytes=50,
    disk_total_bytes=100,
)


def partition(
    number: int = 0, *, leader: int = 1, in_sync: tuple[int, ...] = (1, 2), min_in_sync: int = 1
) -> PartitionFacts:
    return PartitionFacts(
        topic="t", partition=number, leader=leader, replicas=(1, 2), in_sync=in_sync, min_in_sync=min_in_sync
    )


def test_a_cluster_without_faults_is_healthy() -> None:
    health = judge(FINE)
    assert (health.is_healthy, health.reasons, health.controller_id, health.nodes_down) == (True, [], 1, [])


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        (replace(FINE, controller_id=-1), ["no_controller"]),
        (replace(FINE, brokers=(BrokerFacts(node_id=3, host="c", port=1, fenced=True),)), ["brokers_down"]),
        (replace(FINE, impaired=(partition(leader=-1, in_sync=(2,)),)), ["leaderless_partitions"]),
        (replace(FINE, impaired=(partition(in_sync=(1,)),)), ["under_replicated_partitions"]),
        (
            replace(FINE, impaired=(partition(in_sync=(1,), min_in_sync=2),)),
            ["under_min_isr_partitions", "under_replicated_partitions"],
        ),
        (replace(FINE, offline_log_dirs=("/d",)), ["offline_log_dirs"]),
        (replace(FINE, disk_free_bytes=4), ["disk_almost_full"]),
    ],
)
def test_each_fault_is_told_with_what_to_do(facts: ClusterFacts, codes: list[str]) -> None:
    health = judge(facts)
    assert (health.is_healthy, [reason.code for reason in health.reasons]) == (False, codes)
    assert all(reason.summary.endswith((".", ")")) or ":" in reason.summary for reason in health.reasons)
    assert all(len(reason.remedy) > 20 for reason in health.reasons)


def test_a_broker_that_shuts_down_on_purpose_is_not_down() -> None:
    leaving = BrokerFacts(node_id=3, host="c", port=1, fenced=True, shutting_down=True)
    assert judge(replace(FINE, brokers=(leaving,))).is_healthy


def test_lists_are_cut_and_counts_are_whole() -> None:
    health = judge(replace(FINE, impaired=tuple(partition(number, in_sync=(1,)) for number in range(LISTED_MAX + 50))))
    assert (health.under_replicated.count, len(health.under_replicated.partitions)) == (LISTED_MAX + 50, LISTED_MAX)


def test_an_unknown_disk_is_no_fault() -> None:
    assert judge(replace(FINE, disk_free_bytes=None, disk_total_bytes=None)).is_healthy


def voter(node_id: int, *, current: bool = True) -> VoterFacts:
    return VoterFacts(node_id=node_id, lag=0 if current else 9, behind_ms=0 if current else 60_000, is_current=current)


def test_controllers_that_lag_are_told_with_how_many_more_may_fail() -> None:
    [reason] = judge(FINE, [voter(1), voter(2), voter(3, current=False)]).reasons
    assert (reason.code, reason.summary.startswith("Controller 3 does not keep up")) == ("lagging_voters", True)
    assert "one more that fails" in reason.summary
    [reason] = judge(FINE, [voter(each, current=each != 5) for each in range(1, 6)]).reasons
    assert "1 more may fail" in reason.summary


def test_a_controller_that_does_not_answer_is_no_controller() -> None:
    assert [reason.code for reason in judge(FINE, controller_answers=False).reasons] == ["no_controller"]


def test_a_decommissioning_that_cannot_go_on_is_told() -> None:
    stuck = BrokerFacts(
        node_id=2,
        host="b",
        port=2,
        desired_state="decommission",
        replicas=1,
        draining=DrainFacts(moving=0, blocked=("t-0",)),
    )
    health = judge(replace(FINE, brokers=(stuck,)))
    assert ([reason.code for reason in health.reasons], health.out_of_duty) == (["decommission_blocked"], [2])
