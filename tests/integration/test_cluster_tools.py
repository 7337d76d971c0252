"""Apache Kafka's own tools over three processes, asked by way of brokers and of controllers. Each start of a JVM is
dear: they run two at a time."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jepsen.java.kafka import tool
from jepsen.three_nodes import NODES, until
from kraft.testing.foreign.librdkafka import Producer
from kraft.testing.process_cluster import CLUSTER_ID
from kraft.testing.steady_writer import SteadyWriter
from tests.capabilities import require_capability
from tests.integration.dynamic_quorum import DIRECTORY_IDS, DynamicQuorum

pytestmark = pytest.mark.java
TOOLS_AT_ONCE = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamicQuorum]:
    require_capability("java17")
    require_capability("mvn")
    with DynamicQuorum(tmp_path_factory.mktemp("tools"), "--set", "offsets.topic.num.partitions=2") as cluster:
        yield cluster


def run(*commands: tuple[str, ...]) -> list[subprocess.CompletedProcess[str]]:
    """What became of each tool, in order."""
    with ThreadPoolExecutor(TOOLS_AT_ONCE) as pool:
        return list(pool.map(lambda command: tool(*command, check=False), commands))


def printed(*commands: tuple[str, ...]) -> list[str]:
    """What each tool printed, in order. A tool that fails fails the test."""
    done = run(*commands)
    assert [each.returncode for each in done] == [0] * len(done), [
        (each.args[-8:], each.stdout, each.stderr) for each in done if each.returncode
    ]
    return [each.stdout for each in done]


def test_brokers_and_controllers_describe_the_quorum_features_and_nodes(cluster: DynamicQuorum) -> None:
    brokers, controllers = ("--bootstrap-server", cluster.bootstrap), ("--bootstrap-controller", cluster.controllers)
    topic = cluster.create("seen")
    status, status_2, replication, replication_2, features, features_2, ids, ids_2, nodes, nodes_2, disks = printed(
        *(("metadata-quorum", *asked, "describe", "--status") for asked in (brokers, controllers)),
        *(("metadata-quorum", *asked, "describe", "--replication") for asked in (brokers, controllers)),
        *(("features", *asked, "describe") for asked in (brokers, controllers)),
        *(("cluster", "cluster-id", *asked) for asked in (brokers, controllers)),
        *(("cluster", "list-endpoints", *asked) for asked in (brokers, controllers)),
        ("log-dirs", *brokers, "--describe", "--topic-list", topic),
    )
    for text in (status, status_2):
        facts = {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
        assert (facts["ClusterId"], int(facts["LeaderId"]) in NODES) == (CLUSTER_ID, True)
        assert {voter["id"]: voter["directoryId"] for voter in json.loads(facts["CurrentVoters"])} == DIRECTORY_IDS
        assert facts["CurrentObservers"] == "[]"
    for text in (replication, replication_2):
        rows = [line.split() for line in text.splitlines()]
        assert rows[0][:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
        assert sorted((int(row[0]), row[1]) for row in rows[1:]) == sorted(DIRECTORY_IDS.items())
        assert sorted(row[-1] for row in rows[1:]) == ["Follower", "Follower", "Leader"]
    for text in (features, features_2):
        rows = {words[1]: words[2:] for words in (line.split() for line in text.splitlines())}
        assert rows["kraft.version"][:6] == [
            "SupportedMinVersion:",
            "0",
            "SupportedMaxVersion:",
            "1",
            "FinalizedVersionLevel:",
            "1",
        ]
    assert all(CLUSTER_ID in text for text in (ids, ids_2))
    for text, wanted in ((nodes, cluster.bootstrap), (nodes_2, cluster.controllers)):
        assert sorted(int(line.split()[2]) for line in text.splitlines()[1:]) == sorted(
            int(address.rpartition(":")[2]) for address in wanted.split(",")
        ), text
    told = json.loads(disks.splitlines()[-1])["brokers"]
    assert sorted(broker["broker"] for broker in told if f'"{topic}-0"' in json.dumps(broker)) == list(NODES)


def test_reassignments_are_listed_and_cancelled_and_refusals_are_reported(
    cluster: DynamicQuorum, tmp_path: Path
) -> None:
    topic = cluster.create("tool-moves", replicas=2)
    before = list(cluster.partitions(topic)[0].replicas)
    target = next(node for node in NODES if node not in before)
    producer = Producer(cluster.servers(batch_size=20_000))
    for _ in range(400):
        producer.produce(topic, bytes(10_000))
    assert producer.flush(60) == 0
    asked = ("--bootstrap-server", cluster.nodes[before[0]].bootstrap)
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [target, before[0]]}]})
    )
    # There is more than one fetch takes, so that a move at a byte a second does not end.
    (started,) = printed(("reassign", *asked, "--reassignment-json-file", str(plan), "--execute", "--throttle", "1"))
    assert "Successfully started" in started
    listed, verified, early, unknown, missing = run(
        ("reassign", *asked, "--list"),
        ("reassign", *asked, "--reassignment-json-file", str(plan), "--verify", "--preserve-throttles"),
        ("leader-election", *asked, "--election-type", "preferred", "--topic", topic, "--partition", "0"),
        ("leader-election", *asked, "--election-type", "unclean", "--topic", "nowhere", "--partition", "0"),
        ("cluster", "unregister", *asked, "--id", "77"),
    )
    assert f"{topic}-0: replicas: " in listed.stdout
    assert f"adding: {target}. removing: {before[1]}" in listed.stdout
    assert f"Reassignment of partition {topic}-0 is still in progress." in verified.stdout
    assert "PreferredLeaderNotAvailableException" in early.stdout
    assert "nowhere-0" in unknown.stdout + unknown.stderr
    assert "BrokerIdNotRegisteredException" in missing.stdout + missing.stderr
    (cancelled,) = printed(("reassign", *asked, "--reassignment-json-file", str(plan), "--cancel"))
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in cancelled
    until(lambda: sorted(cluster.partitions(topic)[0].replicas) == sorted(before), "the replicas are not as before")


def test_an_unclean_election_runs_on_request_and_preferred_leaders_return(cluster: DynamicQuorum) -> None:
    topic = cluster.create("unclean", replicas=2, min_insync_replicas="1")
    last, behind = cluster.partitions(topic)[0].replicas
    other = next(node for node in NODES if node not in (last, behind))
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(20)
        cluster.nodes[behind].kill()
        until(lambda: cluster.told_by(other, topic)[0].isr_nodes == [last], "the dead follower stays in sync")
        writer.more(20)
    cluster.kill([last])
    cluster.nodes[behind].start()
    until(lambda: cluster.told_by(other, topic)[0].leader_id == -1, "who was out of sync leads")
    asked = ("--bootstrap-server", f"{cluster.nodes[other].bootstrap},{cluster.nodes[behind].bootstrap}")
    named = ("--topic", topic, "--partition", "0")
    (elected,) = printed(("leader-election", *asked, "--election-type", "unclean", *named))
    assert f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0" in elected
    until(lambda: cluster.told_by(other, topic)[0].leader_id == behind, "who was asked for does not lead")
    cluster.nodes[last].start()
    until(lambda: len(cluster.told_by(other, topic)[0].isr_nodes) == 2, "the former leader does not follow")
    cluster.until_agree(topic, nodes=(last, behind))
    (elected,) = printed(("leader-election", *asked, "--election-type", "preferred", *named))
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in elected
    until(lambda: cluster.told_by(other, topic)[0].leader_id == last, "the preferred leader does not lead")
