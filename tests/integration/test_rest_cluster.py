"""`kraft cluster start` and the HTTP admin of three nodes: any of them answers and takes changes; what happens to a
node is told and acted upon."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import confluent_kafka
import confluent_kafka.admin
import httpx
import pytest

from jepsen.three_nodes import until
from kraft.cli.admin.app import main
from kraft.cli.admin.cluster.events import parse_stream
from tests.integration.rest_cluster import Started


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    started = Started(tmp_path_factory.mktemp("cluster") / "c")
    try:
        yield started
    finally:
        started.process.send_signal(signal.SIGINT)
        started.process.wait(60)
        assert started.process.stdout is not None
        started.process.stdout.close()


def leaders(cluster: Started, node: int, topic: str) -> list[int]:
    partitions = httpx.get(f"{cluster.base(node)}/topics/{topic}/partitions", timeout=30).json()["data"]
    return [int(each["leader"]["related"].rpartition("/")[2]) for each in partitions]


def test_any_node_accepts_a_change_and_every_node_shows_it(cluster: Started) -> None:
    answer = httpx.post(
        f"{cluster.base(2)}/topics",
        json={"topic_name": "t", "partitions_count": 6, "replication_factor": 3},
        timeout=30,
    )
    assert answer.status_code == 201, answer.text
    for node in cluster.admins:
        until(lambda node=node: cluster.get(node, "/v1/brokers/1")["replicas_count"] >= 6, "the topic is not shown")
    statuses = httpx.get(f"{cluster.base(3)}/topics/t/partitions/0/replica-status", timeout=30).json()["data"]
    assert sorted((each["broker_id"], each["lag"], each["is_in_isr"]) for each in statuses) == [
        (1, 0, True),
        (2, 0, True),
        (3, 0, True),
    ]
    quorum = httpx.get(f"{cluster.base(1)}/quorum", timeout=30).json()
    assert (
        [voter["node_id"] for voter in quorum["voters"]],
        sum(voter["is_leader"] for voter in quorum["voters"]),
    ) == ([1, 2, 3], 1)


def test_the_coordinator_reports_the_lag_of_partitions_on_other_brokers(cluster: Started) -> None:
    """Six partitions with one replica each: two thirds of them are elsewhere, whoever coordinates the group."""
    topic = {"topic_name": "lagging", "partitions_count": 6, "replication_factor": 1}
    assert httpx.post(f"{cluster.base(1)}/topics", json=topic, timeout=30).status_code == 201
    bootstrap = {"bootstrap.servers": f"127.0.0.1:{cluster.kafka}"}
    producer = confluent_kafka.Producer(bootstrap)
    for partition in range(6):
        for _ in range(10 * partition):
            producer.produce("lagging", b"x", partition=partition)
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer({**bootstrap, "group.id": "behind"})
    try:
        places = [confluent_kafka.TopicPartition("lagging", partition, 0) for partition in range(6)]
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()
    wanted = 'kafka_consumergroup_lag_sum{consumergroup="behind",topic="lagging"} '
    texts = [httpx.get(f"{admin}/metrics", timeout=30).text for admin in cluster.admins.values()]
    sums = [float(line.rpartition(" ")[2]) for text in texts for line in text.splitlines() if line.startswith(wanted)]
    assert sums == [150]


def test_a_missing_group_is_404_whichever_node_coordinates_it(cluster: Started) -> None:
    for number in range(8):
        answer = httpx.get(f"{cluster.base(1)}/consumer-groups/missing-{number}", timeout=30)
        assert (answer.status_code, answer.json()["error_code"]) == (404, 40405), answer.text


def test_a_stopped_broker_is_awaited_briefly_and_then_named(cluster: Started) -> None:
    paths = ("/consumer-groups", "/consumer-groups/-/lag-summary", "/topics/t/partitions/-/replica-status")
    cluster_path = cluster.base(1).removeprefix(cluster.admins[1])
    for path in paths:
        assert cluster.get(1, cluster_path + path)["unanswered_brokers"] == []
    pid = cluster.pid(3)
    os.kill(pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor() as at_once:  # Before the broker's session ends.
            wanted = [*(cluster.base(1) + path for path in paths), f"{cluster.admins[1]}/v1/transactions"]
            answers = list(at_once.map(partial(httpx.get, timeout=15), wanted))
        for answer in answers:
            assert answer.status_code == 200, answer.text
            assert [each["broker_id"] for each in answer.json()["unanswered_brokers"]] == [3], answer.text
        until(lambda: cluster.get(1, "/v1/brokers/3")["state"] == "fenced", "broker 3 is not fenced")
        [missing] = cluster.get(1, cluster_path + paths[2])["unanswered_brokers"]
        assert missing["detail"].endswith("broker 3 is fenced")
        assert cluster.get(1, cluster_path + paths[0])["unanswered_brokers"] == []
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: cluster.get(1, "/v1/brokers/3")["state"] == "running", "broker 3 does not come back")
    until(lambda: cluster.codes(1) == [], "the cluster is not well")
    bring_leaders_back(cluster)


def bring_leaders_back(cluster: Started) -> None:
    """Every partition is led by its first replica, as far as all nodes know."""
    assert httpx.post(f"{cluster.admins[2]}/v1/elections", json={}, timeout=30).json()["ok"]

    def are_back() -> bool:
        told = [
            confluent_kafka.admin.AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=30)
            for port in cluster.ports
        ]
        return all(
            partition.leader == partition.replicas[0]
            for each in told
            for topic in each.topics.values()
            for partition in topic.partitions.values()
        )

    until(are_back, "a partition is not led by its first replica")


def commit_in(cluster: Started, group: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": f"127.0.0.1:{cluster.kafka}", "group.id": group})
    try:
        consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 0)], asynchronous=False)
    finally:
        consumer.close()


def groups_of_topic(cluster: Started, node: int) -> tuple[dict[str, int], list[int]]:
    """Groups of topic t with their coordinators, and who did not answer, as a node tells."""
    answer = httpx.get(f"{cluster.admins[node]}/v1/topics/t/groups", timeout=30)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    coordinators = {each["consumer_group_id"]: each["coordinator_id"] for each in told["data"]}
    assert told["groups_count"] == len(coordinators)
    return coordinators, [each["broker_id"] for each in told["unanswered_brokers"]]


def test_every_node_returns_the_groups_of_a_topic_and_the_directory_sizes_of_each_node(cluster: Started) -> None:
    for number in range(8):
        commit_in(cluster, f"of-t-{number}")
    told = [groups_of_topic(cluster, node) for node in cluster.admins]
    assert told == [told[0]] * 3
    coordinators, silent = told[0]
    assert [group for group in coordinators if group.startswith("of-t-")] == [f"of-t-{number}" for number in range(8)]
    assert (len({*coordinators.values()}), silent) == (2, []), "the offsets topic has two partitions"
    for broker in cluster.admins:
        path = f"/v1/brokers/{broker}/log-dirs"
        replicas = [each for told in cluster.get(1, path)["data"] for each in told["replicas"]]
        assert sum(each["size_bytes"] for each in replicas) > 0
        for node in cluster.admins:
            [directory] = cluster.get(node, f"{path}?replicas=false")["data"]
            assert directory["size_bytes"] == sum(each["size_bytes"] for each in replicas)


def test_a_stopped_node_is_named_in_the_groups_of_a_topic_and_in_its_directory_sizes(cluster: Started) -> None:
    before, _ = groups_of_topic(cluster, 1)
    stopped = next(broker for broker in before.values() if broker != 1)
    rest = {group: broker for group, broker in before.items() if broker != stopped}
    assert rest
    pid = cluster.pid(stopped)
    os.kill(pid, signal.SIGSTOP)
    try:
        answer = httpx.get(f"{cluster.admins[1]}/v1/brokers/{stopped}/log-dirs?replicas=false", timeout=30)
        assert answer.status_code == 503
        assert answer.json()["detail"].startswith(f"broker {stopped} cannot be reached")
        assert groups_of_topic(cluster, 1) == (rest, [stopped])
        for broker in (each for each in cluster.admins if each != stopped):
            assert cluster.get(1, f"/v1/brokers/{broker}/log-dirs?replicas=false")["data"][0]["size_bytes"] > 0
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: groups_of_topic(cluster, 1) == (before, []), "the stopped node does not come back")
    until(lambda: cluster.codes(1) == [], "the cluster is not well")
    bring_leaders_back(cluster)


def test_maintenance_moves_leaders_away_and_its_end_with_an_election_brings_them_back(cluster: Started) -> None:
    assert (
        httpx.put(f"{cluster.admins[1]}/v1/brokers/2/maintenance", timeout=30).json()["desired_state"] == "maintenance"
    )
    until(lambda: 2 not in leaders(cluster, 3, "t"), "broker 2 still leads")
    assert cluster.get(3, "/v1/cluster/health")["out_of_duty"] == [2]
    assert httpx.delete(f"{cluster.admins[3]}/v1/brokers/2/maintenance", timeout=30).status_code == 200
    assert httpx.post(f"{cluster.admins[2]}/v1/elections", json={}, timeout=30).json()["ok"]
    until(lambda: leaders(cluster, 1, "t").count(2) == 2, "broker 2 does not lead again")


def test_a_fenced_broker_leads_no_partition_and_may_lead_after_unfencing(cluster: Started) -> None:
    assert httpx.put(f"{cluster.admins[1]}/v1/brokers/2/fence", timeout=30).json()["desired_state"] == "fenced"
    for node in (1, 3):
        until(lambda node=node: cluster.get(node, "/v1/brokers/2")["state"] == "fenced", "broker 2 is not fenced")
    assert cluster.get(1, "/v1/brokers/2")["leaders_count"] == 0
    assert 2 not in leaders(cluster, 3, "t")

    def in_sync() -> bool:
        checks = cluster.get(2, "/readyz?in_sync=true")["checks"]
        return {check["name"]: check["ok"] for check in checks}["in_sync"]

    until(lambda: not in_sync(), "a fenced broker counts its replicas as in sync")
    assert httpx.delete(f"{cluster.admins[1]}/v1/brokers/2/maintenance", timeout=30).status_code == 409
    assert httpx.put(f"{cluster.admins[1]}/v1/brokers/2/maintenance", timeout=30).status_code == 409
    assert main(["brokers", "fence", "2", "--end", "--bootstrap-server", f"127.0.0.1:{cluster.kafka}"]) == 0
    until(lambda: cluster.get(3, "/v1/brokers/2")["state"] == "running", "broker 2 does not come back")
    until(lambda: cluster.codes(1) == [], "the cluster is not well")
    until(in_sync, "its replicas are not in sync")
    assert httpx.delete(f"{cluster.admins[1]}/v1/brokers/2/fence", timeout=30).status_code == 409


def test_a_partition_is_moved_by_kafkas_reassignment_file_and_its_progress_is_shown(cluster: Started) -> None:
    assert (
        httpx.post(
            f"{cluster.base(1)}/topics", json={"topic_name": "m", "replicas_assignments": {"0": [1]}}, timeout=30
        ).status_code
        == 201
    )
    file = {"version": 1, "partitions": [{"topic": "m", "partition": 0, "replicas": [3], "log_dirs": ["any"]}]}
    assert httpx.post(f"{cluster.admins[2]}/v1/reassignments", json=file, timeout=30).json()["ok"]
    until(lambda: leaders(cluster, 1, "m") == [3], "the partition does not move")
    refused = httpx.post(
        f"{cluster.admins[2]}/v1/reassignments",
        json={"partitions": [{"topic": "no", "partition": 0, "replicas": [3]}]},
        timeout=30,
    )
    assert (refused.status_code, refused.json()["data"][0]["error"]) == (207, "UNKNOWN_TOPIC_OR_PARTITION")
    missing = httpx.get(f"{cluster.base(1)}/topics/m/partitions/0/reassignment", timeout=30)
    assert (missing.status_code, "not being moved" in missing.json()["message"]) == (404, True)
    assert httpx.get(f"{cluster.base(1)}/topics/-/partitions/-/reassignment", timeout=30).json()["data"] == []


def test_a_broker_is_decommissioned_and_partitions_without_a_target_are_reported(
    cluster: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = cluster.get(1, "/v1/brokers/3/decommission/plan?bytes_per_second=1000")
    assert plan["replicas_count"] == sum(each["replicas_count"] for each in plan["arrivals"]) >= 1
    assert (plan["unsized_count"], plan["unanswered_brokers"]) == (0, [])
    assert plan["size_bytes"] == sum(each["size_bytes"] for each in plan["arrivals"])
    assert plan["blocked_count"] >= 6
    assert 0 <= plan["estimated_seconds"] <= plan["size_bytes"] / 1000
    capsys.readouterr()
    dry = ["brokers", "decommission", "3", "--dry-run", "--throttle", "1000", "--admin", cluster.admins[1]]
    assert main([*dry, "-o", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["arrivals"] == plan["arrivals"]
    assert f"{plan['blocked_count']} replicas would stay, since no other broker is free" in shown.err
    assert cluster.get(2, "/v1/brokers/3")["desired_state"] == "active", "nothing has begun"
    assert httpx.get(f"{cluster.admins[1]}/v1/brokers/9/decommission/plan", timeout=30).status_code == 404
    assert httpx.put(f"{cluster.admins[1]}/v1/brokers/3/decommission", timeout=30).status_code == 202
    until(lambda: leaders(cluster, 2, "m") != [3], "the only replica of m stays on broker 3")
    until(
        lambda: cluster.get(2, "/v1/brokers/3/decommission")["phase"] == "blocked",
        "six partitions have no third broker",
    )
    until(lambda: "decommission_blocked" in cluster.codes(1), "health does not tell what is blocked")
    capsys.readouterr()
    health = ["cluster", "health", "--bootstrap-server", f"127.0.0.1:{cluster.kafka}", "-o", "json"]
    assert main(health) == 1
    [reason] = json.loads(capsys.readouterr().out)["reasons"]
    assert reason == next(each for each in cluster.get(1, "/v1/cluster/health")["reasons"])
    asked = ["brokers", "decommission", "3", "--yes", "--bootstrap-server", f"127.0.0.1:{cluster.kafka}"]
    begun = time.monotonic()
    assert main([*asked, "--wait", "600"]) == 1
    assert time.monotonic() - begun < 60, "it waits for what cannot be"
    assert "Broker 3 cannot be emptied: for" in capsys.readouterr().err
    assert httpx.delete(f"{cluster.admins[2]}/v1/brokers/3/decommission", timeout=30).status_code == 200
    until(lambda: cluster.codes(1) == [], "the cluster is not well")


def test_a_killed_node_is_reported_by_health_events_and_the_command(cluster: Started) -> None:
    assert httpx.post(f"{cluster.admins[2]}/v1/elections", json={}, timeout=30).json()["ok"]
    until(lambda: 3 in leaders(cluster, 1, "t"), "broker 3 does not lead again")
    last = cluster.get(1, "/v1/events")["last_id"]
    os.kill(cluster.pid(3), signal.SIGKILL)
    until(
        lambda: {"brokers_down", "under_replicated_partitions", "lagging_voters"} <= {*cluster.codes(1)},
        "the death is not told",
    )
    kinds: list[str] = []
    with httpx.stream(
        "GET",
        f"{cluster.admins[1]}/v1/events",
        headers={"accept": "text/event-stream", "last-event-id": str(last)},
        timeout=30,
    ) as stream:
        for event in parse_stream(line.encode() for line in stream.iter_lines()):
            assert event["id"] > last
            kinds.append(event["kind"])
            if {"broker.fenced", "isr.shrunk", "leader.changed"} <= {*kinds}:
                break
    assert "missed" not in kinds
    until(lambda: "node 3 was killed by SIGKILL" in cluster.said.read_text(), "nobody says that node 3 is gone")
    until(
        lambda: cluster.get(2, "/v1/partitions?state=under_replicated")["count"] >= 6,
        "node 2 does not show what is under-replicated",
    )
    assert cluster.get(2, "/v1/elections/unclean") == {"count": 0, "data": []}
    assert main(["elections", "losses", "t", "--admin", cluster.admins[2]]) == 0


def test_a_running_broker_is_unregistered_only_by_force_and_then_reported_not_ready(
    cluster: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["brokers", "unregister", "2", "--yes", "--bootstrap-server", f"127.0.0.1:{cluster.kafka}"]
    assert main(asked) == 1
    assert "it is running" in capsys.readouterr().err
    assert httpx.get(f"{cluster.admins[2]}/readyz", timeout=30).status_code == 200
    assert main([*asked, "--force"]) == 0
    until(lambda: httpx.get(f"{cluster.admins[2]}/readyz", timeout=30).status_code == 503, "node 2 says it is ready")
    until(lambda: "broker_not_registered" in cluster.codes(1), "node 1 does not name the broker")
    [reason] = [each for each in cluster.get(1, "/v1/cluster/health")["reasons"] if each["code"].endswith("registered")]
    assert reason["summary"].startswith("Broker 2 runs without a valid registration")
    assert reason["remedy"].startswith("Restart it")
