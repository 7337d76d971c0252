"""`kraft top` and `kraft doctor` at clusters that are busy, well, and wrongly set up."""

from __future__ import annotations

import json
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kraft.cli.admin.app import main
from kraft.testing.cluster_thread import ClusterThread
from tests.integration.rest_node import running_node


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    with ClusterThread(3) as started:
        started.create_topic("busy", 2, min_insync_replicas=2)
        yield started


def findings(bootstrap: str, capsys: pytest.CaptureFixture[str], *, code: int) -> list[tuple[str, str, str]]:
    assert main(["doctor", "-b", bootstrap, "-o", "json", "--timeout", "5"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["is_well"] == (code == 0)
    return [(each["check"], each["result"], each["summary"]) for each in document["findings"]]


@contextmanager
def taken_and_deaf() -> Iterator[int]:
    """A port on which nobody listens, or can begin to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_top_shows_current_rates_and_lag(cluster: ClusterThread, capsys: pytest.CaptureFixture[str]) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "slow", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("busy", 0, 0)], asynchronous=False)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(0.01):
            producer.produce("busy", b"x", partition=0)
            producer.flush(30)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        arguments = ["top", "-b", cluster.bootstrap, "--interval", "0.5", "--looks", "2", "-o", "json"]
        assert main(arguments) == 0
    finally:
        is_over.set()
        writer.join()
        consumer.close()
    looks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(looks) == 2
    last = looks[-1]
    assert last["topics"][0]["topic"] == "busy"
    assert last["topics"][0]["records_per_second"] > 0
    assert last["partitions"][0]["partition"] == "busy-0"
    assert [each["node_id"] for each in last["brokers"]] == [1, 2, 3]
    [group] = [each for each in last["groups"] if each["topic"] == "busy"]
    assert (group["group"], group["caught_up_in_seconds"]) == ("slow", None)
    assert group["lag"] > 0 < group["lag_per_second"]
    assert main(["top", "-b", cluster.bootstrap, "--interval", "0.2", "--looks", "1"]) == 0
    assert "\nbusy\t2\t" in capsys.readouterr().out


def test_doctor_finds_no_fault_in_a_healthy_cluster(cluster: ClusterThread, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(cluster.bootstrap, capsys, code=0)
    assert [check for check, _, _ in found] == [
        *["bootstrap address"] * 3,
        *[f"address of broker {node}" for node in cluster.node_ids],
        "health",
        "releases",
        "copies",
    ]
    assert {result for _, result, _ in found[:-1]} == {"ok"}


def test_top_and_doctor_show_a_share_group_whose_records_wait(
    cluster: ClusterThread, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("jobs", min_insync_replicas=2)
    cluster.produce("jobs", "a", "b", "c")
    at = ("-b", cluster.bootstrap)
    assert main(["share", "offsets", "reset", "workers", "-t", "jobs", "--to-earliest", "--execute", *at]) == 0
    try:
        capsys.readouterr()
        assert main(["top", *at, "--interval", "0.2", "--looks", "1", "-o", "json"]) == 0
        [group] = [each for each in json.loads(capsys.readouterr().out)["groups"] if each["topic"] == "jobs"]
        assert (group["group"], group["is_share"], group["lag"]) == ("workers", True, 3)
        assert main(["top", *at, "--interval", "0.2", "--looks", "1"]) == 0
        assert "\nworkers (share)\tjobs\t3\t" in capsys.readouterr().out
        *_, found = findings(cluster.bootstrap, capsys, code=0)
        assert found == ("share groups", "note", "records wait in share groups without members: workers")
    finally:
        assert main(["share", "delete", "workers", "--yes", *at]) == 0
        capsys.readouterr()
        cluster.delete_topic("jobs")


def test_doctor_warns_of_harmful_settings(cluster: ClusterThread, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.create_topic("single", replicas=1)
    cluster.create_topic("strict", min_insync_replicas=3)
    cluster.create_topic("loose", min_insync_replicas=1)
    try:
        notes = [summary for _, result, summary in findings(cluster.bootstrap, capsys, code=0) if result == "note"]
        assert any("single" in each and "have one copy" in each for each in notes)
        assert any("strict" in each and "refuse writes" in each for each in notes)
        assert any("loose" in each and "may mean one copy" in each for each in notes)
    finally:
        for topic in ("single", "strict", "loose"):
            cluster.delete_topic(topic)


def test_doctor_finds_an_advertised_address_that_clients_cannot_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with taken_and_deaf() as nowhere:
        told = f"advertised.listeners=PLAINTEXT://127.0.0.1:{nowhere}"
        with running_node(tmp_path, "--set", told) as node:
            found = findings(node.kafka, capsys, code=1)
    assert found[0][:2] == ("bootstrap address", "ok")
    assert found[1][:2] == ("address of broker 1", "fault")
    assert str(nowhere) in found[1][2]


def test_doctor_finds_an_advertised_address_of_another_cluster(
    cluster: ClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = cluster.bootstrap.partition(",")[0]
    with running_node(tmp_path, "--set", f"advertised.listeners=PLAINTEXT://{other}") as node:
        found = findings(node.kafka, capsys, code=1)
    assert found[1][1] == "fault"
    assert f"and not {node.cluster_id}" in found[1][2]


def test_doctor_tells_a_closed_port_from_a_listener_that_requires_tls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with taken_and_deaf() as nowhere:
        assert main(["doctor", "-b", f"127.0.0.1:{nowhere}"]) == 1
    assert "no node listens there" in capsys.readouterr().out
    with ClusterThread(1, security="tls") as secured:
        assert main(["doctor", "-b", secured.bootstrap, "--timeout", "2"]) == 1
        assert "a TLS listener closes plaintext connections" in capsys.readouterr().out


def test_a_bundle_has_all_responses_and_names_those_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "trouble.tar.gz"
    with running_node(tmp_path) as node:
        arguments = ["bundle", "-b", node.kafka, "--file", str(target), "-o", "json"]
        assert main([*arguments, "--admin", node.admin]) == 0
        whole = json.loads(capsys.readouterr().out)
        assert main([*arguments, "--admin", "http://127.0.0.1:1"]) == 0
        assert len(json.loads(capsys.readouterr().out)["errors"]) == 4
        assert main([*arguments, "--admin", node.admin]) == 0
    assert whole["errors"] == {}
    with tarfile.open(target) as archive:
        names = [name.removeprefix("trouble/") for name in archive.getnames()]
        assert names == whole["contents"]
        health = archive.extractfile("trouble/cluster-health.json")
        assert health is not None
        assert json.load(health)["is_healthy"] is True
        metrics = archive.extractfile("trouble/node-metrics.txt")
        assert metrics is not None
        assert b"kraft_build_info" in metrics.read()
    capsys.readouterr()
    assert main(["bundle", "-b", "127.0.0.1:1", "--file", str(target), "--admin", "http://127.0.0.1:1"]) == 1
    assert "requests failed" in capsys.readouterr().out
    assert main(["bundle", "-b", "127.0.0.1:1", "--file", "/no/such/folder/x", "--admin", "http://127.0.0.1:1"]) == 1
    assert "/no/such/folder/x cannot be written" in capsys.readouterr().err
