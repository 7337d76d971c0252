"""`kraft verify`: what its lines say, and what it finds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.clusters import Cluster

KRAFT = [sys.executable, "-m", "kraft.cli.admin.app", "verify"]

pytestmark = pytest.mark.timeout(120)


def lines(cluster: Cluster, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    command = [*KRAFT, *arguments, "-b", cluster.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def only(found: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Lines of one kind, without their time."""
    return [
        {key: value for key, value in each.items() if key not in ("timestamp", "name")}
        for each in found
        if each["name"] == name
    ]


def test_verify_reads_each_number_it_wrote_once(cluster: Cluster) -> None:
    topic = cluster.create("numbers", 3)
    sent = lines(cluster, "produce", topic, "-n", "2000", "--prefix", "a", "--keys", "5")
    assert [each["name"] for each in (sent[0], *sent[-2:])] == ["startup_complete", "shutdown_complete", "tool_data"]
    acked = only(sent, "producer_send_success")
    assert [each["value"] for each in acked] == [f"a.{number}" for number in range(2000)]
    assert acked[7]["key"] == "2"
    assert (sent[-1]["sent"], sent[-1]["acked"], sent[-1]["target_throughput"]) == (2000, 2000, -1)
    lines(cluster, "produce", topic, "-n", "300", "--rate", "3000")
    read = lines(cluster, "consume", topic, "--exit")
    assert {each["topic"] for each in only(read, "partitions_assigned")[0]["partitions"]} == {topic}
    assert sum(each["count"] for each in only(read, "records_consumed")) == 2300
    well = {"missing": 0, "missing_ranges": [], "twice": 0, "late": 0}
    assert sorted(only(read, "verdict"), key=lambda each: str(each["prefix"])) == [
        {"prefix": "", "count": 300, "highest": 299, **well},
        {"prefix": "a", "count": 2000, "highest": 1999, **well},
    ]


def test_lost_and_duplicate_records_are_found(cluster: Cluster) -> None:
    topic = cluster.create("holes")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in ("r.0", "r.1", "r.4", "r.3", "r.1", "something", "r.9"):
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    read = lines(cluster, "consume", topic, "--exit", code=1)
    assert only(read, "verdict") == [
        {
            "prefix": "r",
            "count": 6,
            "highest": 9,
            "missing": 5,
            "missing_ranges": [[2, 2], [5, 8]],
            "twice": 1,
            "late": 2,
        }
    ]
    assert only(read, "other_records") == [{"count": 1}]


def test_a_signal_stops_produce_cleanly(cluster: Cluster) -> None:
    topic = cluster.create("stopped")
    command = [*KRAFT, "produce", topic, "--rate", "200", "-b", cluster.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = [json.loads(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        found += [json.loads(line) for line in process.stdout]
        assert time.monotonic() < deadline
        assert process.wait(30) == 0
    assert (found[-1]["name"], found[-1]["sent"]) == ("tool_data", found[-1]["acked"])
    read = lines(cluster, "consume", topic, "--exit")
    assert only(read, "verdict")[0]["count"] == found[-1]["acked"]
