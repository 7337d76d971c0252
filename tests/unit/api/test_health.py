"""The verdict on a cluster: what makes it unhealthy, and that every reason says what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kraft_http.health.health import LISTED_MAX, VoterFacts, judge
from kraft_http.health.health_findings import (
    WAITS_SAID_MAX,
    NodeStatus,
    ReplicaEnd,
    SetAsideItem,
    UnmadeTopic,
    UnreadableLog,
    WaitingElection,
    WaitingElections,
    WaitingReplica,
)
from kraft_http.ports import BrokerFacts, ClusterFacts, DrainFacts, InternalTopicFacts, PartitionFacts

from tests.unit.api.health_facts import FINE


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
    ],
)
def test_each_fault_is_reported_with_its_remedy(facts: ClusterFacts, codes: list[str]) -> None:
    health = judge(facts)
    assert (health.is_healthy, [reason.code for reason in health.reasons]) == (False, codes)
    assert all(reason.summary.endswith((".", ")")) or ":" in reason.summary for reason in health.reasons)
    assert all(len(reason.remedy) > 20 for reason in health.reasons)


def test_a_broker_in_controlled_shutdown_is_not_reported_as_down() -> None:
    leaving = BrokerFacts(node_id=3, host="c", port=1, fenced=True, shutting_down=True)
    assert judge(replace(FINE, brokers=(leaving,))).is_healthy


def test_lists_in_health_findings_are_truncated_and_counts_complete() -> None:
    health = judge(replace(FINE, impaired=tuple(partition(number, in_sync=(1,)) for number in range(LISTED_MAX + 50))))
    assert (health.under_replicated.count, len(health.under_replicated.partitions)) == (LISTED_MAX + 50, LISTED_MAX)


def test_the_disks_of_every_node_are_checked() -> None:
    full = NodeStatus(node_id=2, disk_free_bytes=4, disk_total_bytes=100)
    failed = NodeStatus(node_id=3, offline_log_dirs=["/d"], disk_free_bytes=50, disk_total_bytes=100)
    reasons = judge(FINE, nodes=[NodeStatus(node_id=1), full, failed]).reasons
    assert [(reason.code, reason.summary.split(" has ")[0]) for reason in reasons] == [
        ("disk_almost_full", "The disk of node 2"),
        ("offline_log_dirs", "Node 3 cannot use /d."),
    ]


def test_an_unreachable_store_is_reported_with_the_time_until_the_disk_is_full() -> None:
    away = NodeStatus(node_id=2, disk_free_bytes=7_200_000, disk_total_bytes=9_000_000)
    away.tiering_put_off_count, away.tiering_put_off_error, away.tiering_put_off_bytes_in = 3, "no answer", 1000.0
    (reason,) = judge(FINE, nodes=[away]).reasons
    assert reason.code == "tiering_put_off"
    assert "for 3 partition(s): no answer. At the current rate its disk lasts 2.0 h." in reason.summary
    away.tiering_put_off_bytes_in = 0.0
    (reason,) = judge(FINE, nodes=[away]).reasons
    assert reason.summary.endswith("no answer.")


def test_an_unknown_disk_state_is_not_a_fault() -> None:
    assert judge(FINE, nodes=[NodeStatus(node_id=1)]).is_healthy


WAITING = WaitingElection(
    topic="t",
    partition=0,
    strategy="none",
    members=[1, 2],
    awaited=[2],
    since_ms=0,
    until_ms=300_000,
    ends=[ReplicaEnd(replica=1, last_epoch=3, end_offset=70)],
    candidate=1,
    command="kraft elections unclean t-0",
)


def test_a_waiting_election_is_reported_with_replicas_times_and_the_remedy() -> None:
    [reason] = judge(FINE, elections=WaitingElections(count=1, partitions=[WAITING])).reasons
    assert (reason.code, reason.summary) == (
        "waiting_election",
        "t-0 waits for replica 2 since 1970-01-01T00:00:00Z, until 1970-01-01T00:05:00Z. Known log ends: 1 at 70.",
    )
    assert reason.remedy.startswith("Start node 2: ")
    assert "kraft elections unclean t-0 --dry-run" in reason.remedy
    nobody = WAITING.model_copy(update={"awaited": [], "until_ms": None, "ends": []})
    [reason] = judge(FINE, elections=WaitingElections(count=1, partitions=[nobody])).reasons
    assert (
        reason.summary == "t-0 waits for an operator since 1970-01-01T00:00:00Z, without bound. Known log ends: none."
    )


def test_a_broker_that_runs_unregistered_is_reported_with_the_remedy() -> None:
    [reason] = judge(FINE, elections=WaitingElections(refused_brokers=[3])).reasons
    assert reason.code == "broker_not_registered"
    assert reason.summary.startswith("Broker 3 runs without a valid registration")
    assert reason.remedy.startswith("Restart it")


def test_of_many_waiting_elections_the_first_are_listed_and_the_rest_counted() -> None:
    many = [WAITING.model_copy(update={"partition": index}) for index in range(100)]
    reasons = judge(FINE, elections=WaitingElections(count=9_000, partitions=many)).reasons
    assert len(reasons) == WAITS_SAID_MAX + 1
    assert reasons[-1].summary == "8995 more partitions wait for a leader."
    replicas = [DAMAGED.model_copy(update={"partition": index}) for index in range(100)]
    node = NodeStatus(node_id=3, waiting_replicas_count=200, waiting_replicas=replicas)
    assert judge(FINE, nodes=[node]).reasons[-1].summary.startswith("195 more replicas of node 3")
    logs = [UNREADABLE.model_copy(update={"partition": index}) for index in range(7)]
    node = NodeStatus(node_id=3, unreadable_logs_count=7, unreadable_logs=logs)
    assert judge(FINE, nodes=[node]).reasons[-1].summary.startswith("2 more partitions")


DAMAGED = WaitingReplica(
    topic="t",
    partition=0,
    since_ms=0,
    start_offset=10,
    known_end_offset=20,
    reason="a batch at byte 7 is damaged",
    command="kraft storage damaged --data-dir /d --accept t:0",
)
UNREADABLE = UnreadableLog(
    topic="t",
    partition=0,
    since_ms=0,
    count=1,
    ranges=[(5, 9)],
    reason="batch 5..8 stays as it is",
    command="kraft topics delete-records t --partition 0 --before 9",
)


def test_a_replica_with_a_damaged_log_is_reported_with_the_command_for_its_node() -> None:
    node = NodeStatus(node_id=3, waiting_replicas_count=1, waiting_replicas=[DAMAGED])
    [reason] = judge(FINE, nodes=[node]).reasons
    assert (reason.code, "Node 3 waits with t-0" in reason.summary, "10 to 20" in reason.summary) == (
        "waiting_replica",
        True,
        True,
    )
    assert "run on node 3: kraft storage damaged --data-dir /d --accept t:0 shows" in reason.remedy


def test_unreadable_records_are_reported_once_for_all_replicas() -> None:
    nodes = [NodeStatus(node_id=each, unreadable_logs_count=1, unreadable_logs=[UNREADABLE]) for each in (1, 2)]
    [reason] = judge(FINE, nodes=nodes).reasons
    assert (reason.code, "nodes 1, 2" in reason.summary, "offsets 5 to 9" in reason.summary) == (
        "unreadable_records",
        True,
        True,
    )
    assert UNREADABLE.command in reason.remedy


def test_suspended_work_is_reported_by_its_item() -> None:
    item = SetAsideItem(work="transaction time-out", item="orders", since_ms=0, count=2, error="AssertionError: no")
    [reason] = judge(FINE, nodes=[NodeStatus(node_id=3, set_aside_count=1, set_aside=[item])]).reasons
    assert reason.code == "work_set_aside"
    assert "Node 3 has set orders (transaction time-out) aside since 1970-01-01T00:00:00Z" in reason.summary
    many = NodeStatus(node_id=3, set_aside_count=7, set_aside=[item] * 7)
    assert judge(FINE, nodes=[many]).reasons[-1].summary == "Node 3 has set 2 more items aside."


def test_an_internal_topic_that_cannot_be_created_is_reported_once() -> None:
    topic = UnmadeTopic(topic="__transaction_state", since_ms=0, reason="3 replicas, 2 brokers")
    [reason] = judge(FINE, nodes=[NodeStatus(node_id=each, unmade_topics=[topic]) for each in (1, 2)]).reasons
    assert reason.code == "internal_topic_missing"
    assert "__transaction_state" in reason.summary
    assert "3 replicas, 2 brokers" in reason.summary


def test_under_replicated_internal_topics_are_reported_with_the_command() -> None:
    offsets = InternalTopicFacts(
        topic="__consumer_offsets", replicas=1, replicas_wanted=3, min_in_sync=1, min_in_sync_wanted=1
    )
    transactions = InternalTopicFacts(
        topic="__transaction_state", replicas=2, replicas_wanted=3, min_in_sync=1, min_in_sync_wanted=2
    )
    enough = InternalTopicFacts(topic="t", replicas=3, replicas_wanted=2, min_in_sync=1, min_in_sync_wanted=2)
    found = judge(replace(FINE, internal_topics=(offsets, transactions, enough))).reasons
    assert {each.code for each in found} == {"internal_topic_few_copies"}
    assert [each.remedy.split("`")[1] for each in found] == [
        "kraft topics alter __consumer_offsets --replication-factor 3",
        "kraft topics alter __transaction_state --replication-factor 3 --config min.insync.replicas=2",
    ]


def voter(node_id: int, *, current: bool = True) -> VoterFacts:
    return VoterFacts(node_id=node_id, lag=0 if current else 9, behind_ms=0 if current else 60_000, is_current=current)


def test_lagging_controllers_are_reported_with_the_number_of_further_tolerable_failures() -> None:
    [reason] = judge(FINE, [voter(1), voter(2), voter(3, current=False)]).reasons
    assert (reason.code, reason.summary.startswith("Controller 3 does not keep up")) == ("lagging_voters", True)
    assert "one more that fails" in reason.summary
    [reason] = judge(FINE, [voter(each, current=each != 5) for each in range(1, 6)]).reasons
    assert "1 more may fail" in reason.summary


def test_without_an_answer_of_the_controller_the_finding_is_no_controller() -> None:
    assert [reason.code for reason in judge(FINE, controller_answers=False).reasons] == ["no_controller"]


def test_a_blocked_decommission_is_reported() -> None:
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


def test_nodes_with_differing_authorization_settings_are_named() -> None:
    alike = [NodeStatus(node_id=1, authorizer="StandardAuthorizer"), NodeStatus(node_id=2)]
    assert judge(FINE, nodes=alike).reasons == []
    [reason] = judge(FINE, nodes=[*alike, NodeStatus(node_id=3, authorizer="none")]).reasons
    assert reason.code == "authorizers_differ"
    assert reason.summary == (
        "Nodes differ in how they authorize requests: StandardAuthorizer on node 1; none on node 3. A node "
        "without an authorizer allows every request."
    )
    open_one = NodeStatus(node_id=3, authorizer="StandardAuthorizer with allow.everyone.if.no.acl.found")
    [reason] = judge(FINE, nodes=[*alike, open_one]).reasons
    assert "everybody" not in reason.summary
