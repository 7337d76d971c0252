"""Three processes with two log directories and a rack each: where replicas are, move and are read from, with Kafka's
tools and unmodified clients."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jepsen.java.kafka import TOOLS, java, tool
from jepsen.three_nodes import NODES, ThreeNodes, until
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.testing.foreign.librdkafka import Consumer
from kraft.testing.steady_writer import SteadyWriter
from tests.capabilities import require_capability

DISKS = ("one", "two")
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    settings = (
        "--set",
        f"replica.selector.class={SELECTOR}",
        "--set",
        "replica.high.watermark.checkpoint.interval.ms=500",
    )
    cluster = ThreeNodes(tmp_path_factory.mktemp("three-racks"), *settings)
    for number, node in cluster.nodes.items():
        node.arguments = (*node.arguments, "--set", f"broker.rack=rack-{number}")
        node.data_directories = ",".join(str(node.directory / disk) for disk in DISKS)
    with cluster:
        yield cluster


def where(cluster: ThreeNodes, node: int, topic: str) -> dict[int, list[tuple[str, bool]]]:
    """By partition: name of the disk, and whether it is a copy on its way."""
    found: dict[int, list[tuple[str, bool]]] = {}
    for result in cluster.ask(node, DescribeLogDirsRequest(topics=None)).results:
        for told in result.topics:
            for partition in told.partitions if told.name == topic else ():
                found.setdefault(partition.partition_index, []).append(
                    (Path(result.log_dir).name, partition.is_future_key)
                )
    return found


def test_a_new_topic_is_spread_over_the_log_directories(cluster: ThreeNodes) -> None:
    topic = cluster.create("spread", partitions=6)
    cluster.until_in_sync(topic)
    for node in NODES:
        found = until(
            lambda node=node: len(told := where(cluster, node, topic)) == 6 and told,
            f"node {node} has not heard of all of {topic}",
        )
        assert {places[0][0] for places in found.values()} == set(DISKS)


def test_kafkas_tool_moves_replicas_between_brokers_and_directories_under_a_throttle(
    cluster: ThreeNodes, tmp_path: Path
) -> None:
    require_capability("java17")
    require_capability("mvn")
    topic = cluster.create("reassigned", replicas=2)
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(100)
        before = list(cluster.partitions(topic)[0].replicas)
        target = [*(node for node in NODES if node not in before), before[0]]
        disks = {node: where(cluster, node, topic).get(0, [("one", False)])[0][0] for node in target}
        other = {node: next(disk for disk in DISKS if disk != disks[node]) for node in target}
        paths = [str(cluster.nodes[node].directory / other[node]) for node in target]
        plan = tmp_path / "plan.json"
        plan.write_text(
            json.dumps(
                {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": target, "log_dirs": paths}]}
            )
        )
        common = ("--bootstrap-server", cluster.nodes[before[0]].bootstrap, "--reassignment-json-file", str(plan))
        limits = ("--throttle", "10000000", "--replica-alter-log-dirs-throttle", "10000000")
        done = tool("reassign", *common, "--execute", *limits, "--timeout", "60000")
        assert "Successfully started" in done.stdout
        until(
            lambda: "is completed" in tool("reassign", *common, "--verify", "--preserve-throttles").stdout,
            "the reassignment does not end",
        )
        until(
            lambda: all(where(cluster, node, topic).get(0) == [(other[node], False)] for node in target),
            "a replica did not get to its directory",
        )
        verified = tool("reassign", *common, "--verify").stdout
        writer.more(50)
    assert not writer.failed
    assert re.search(r"Reassignment of partition reassigned-0 is complete", verified), verified
    assert "Clearing broker-level throttles" in verified
    assert "Clearing topic-level throttles" in verified
    left = [
        tool(
            "configs", "--bootstrap-server", common[1], "--describe", "--entity-type", "topics", "--entity-name", topic
        ).stdout
    ]
    assert "throttled" not in left[0]
    assert {value for value, _, _ in writer.acknowledged} <= {
        value for _, _, value in cluster.read(topic, len(writer.acknowledged))
    }
    shown = tool("log-dirs", "--bootstrap-server", common[1], "--describe", "--topic-list", topic).stdout
    assert f'"partition":"{topic}-0"' in shown


def test_consumers_read_from_the_replica_in_their_rack(cluster: ThreeNodes) -> None:
    topic = cluster.create("racks")
    cluster.until_in_sync(topic)
    leader = cluster.leader(topic)
    near = next(node for node in NODES if node != leader)
    sources: list[Any] = []

    def note(text: str) -> None:
        partition = json.loads(text)["topics"].get(topic, {}).get("partitions", {}).get("0")
        if partition is not None:
            sources.append((partition["broker"], partition["leader"]))

    options = cluster.servers(
        group_id="racks", auto_offset_reset="earliest", client_rack=f"rack-{near}", statistics_interval_ms=100
    )
    consumer = Consumer({**options, "stats_cb": note})  # type: ignore[dict-item]
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        with SteadyWriter(cluster.bootstrap, topic) as writer:
            writer.more(50)

            def enough() -> bool:
                message = consumer.poll(0.5)
                if message is not None and not message.error():
                    found.append(bytes(message.value() or b""))
                return len(found) >= 50 and (near, leader) in sources

            until(enough, f"{len(found)} records, read from {sources[-3:]}, expected from {near}")
            have = len(found)
            writer.more(50)
            until(lambda: enough() and len(found) >= have + 50, "a follower does not hear of what is committed")
    finally:
        consumer.close()
    assert found == [b"%d" % number for number in range(len(found))]


def test_kafkas_own_consumer_reads_from_the_replica_in_its_rack(cluster: ThreeNodes) -> None:
    """The leader names the replica, the Java consumer goes there and gets every record, none from the leader
    (KIP-392)."""
    require_capability("java17")
    require_capability("mvn")
    topic = cluster.create("java-racks")
    cluster.until_in_sync(topic)
    leader = cluster.leader(topic)
    near = next(node for node in NODES if node != leader)
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(50)
    wanted = (
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        "50",
        "--timeout-ms",
        "60000",
        "--command-property",
        f"client.rack=rack-{near}",
    )
    command = [
        *java("-Xmx512M", "DEBUG"),
        TOOLS["console-consumer"],
        "--bootstrap-server",
        cluster.bootstrap,
        *wanted,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert [int(line) for line in done.stdout.splitlines() if line.isdigit()] == list(range(50)), done.stderr[-2000:]
    said = done.stderr
    assert f"Updating preferred read replica for partition {topic}-0 to {near}" in said
    asked = [
        int(node)
        for node in re.findall(rf"Sending \S+ \w+FetchRequest\(toSend=\({topic}-0\).*? to broker \S+ \(id: (\d+)", said)
    ]
    assert (asked[0], {*asked[1:]}) == (leader, {near})
    assert re.findall(rf"at offset (\d+) for partition {topic}-0 returned fetch data", said)[:2] == ["0", "0"], (
        "the leader sends records with the name"
    )


def test_a_failed_log_directory_takes_only_its_own_replicas_offline(cluster: ThreeNodes) -> None:
    """The second disk of a node fails: what it led is led by others, what is on the first goes on there, and nothing
    that was acknowledged is lost."""
    topic = cluster.create("disk-fails", partitions=6)
    cluster.until_in_sync(topic)
    victim = cluster.leader(topic)
    places = {index: found[0][0] for index, found in where(cluster, victim, topic).items()}
    lost = [index for index, disk in places.items() if disk == "two"]
    kept = [index for index, disk in places.items() if disk == "one"]
    assert lost
    assert kept
    with SteadyWriter(cluster.bootstrap, topic, lost[0]) as writer:
        writer.more(50)
        disk = cluster.nodes[victim].directory / "two"
        disk.rename(disk.with_name("gone"))
        disk.write_text("no directory")
        writer.more(50)

        def others_lead() -> bool:
            found = cluster.partitions(topic)
            return bool(found) and all(
                found[index].leader not in (-1, victim) and victim not in found[index].isrs for index in lost
            )

        until(
            others_lead, "the replicas of the failed directory are still in sync: " + cluster.nodes[victim].log_tail(20)
        )
        writer.more(50)
    assert not writer.failed
    found = cluster.partitions(topic)
    assert all(victim in found[index].isrs for index in kept)
    values = {
        value
        for partition, _, value in cluster.read(topic, len(writer.acknowledged), partitions=6)
        if partition == lost[0]
    }
    assert {value for value, _, _ in writer.acknowledged} <= values
