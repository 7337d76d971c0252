"""Members of real clients that commit nothing are told from one that is merely slow: by REST, in the health verdict, in
the metrics and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from tests.integration.rest_node import RunningNode, running_node

STUCK_MS = 10_000
TOPICS = ("never", "paused", "slow", "well")
PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("progress"), "--set", f"kraft.group.stuck.ms={STUCK_MS}") as started:
        yield started


@contextmanager
def background(*works: Any) -> Iterator[threading.Event]:
    """Each is called again and again until the block ends."""
    ended = threading.Event()

    def run(work: Any) -> None:
        while not ended.is_set():
            work()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield ended
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def member(node: RunningNode, topic: str, **settings: Any) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": node.kafka,
            "group.id": f"g-{topic}",
            "client.id": f"client-{topic}",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            **settings,
        }
    )
    consumer.subscribe([topic])
    return consumer


def progress(node: RunningNode, topic: str) -> dict[str, Any]:
    answer = httpx.get(f"{node.admin}/v1/groups/g-{topic}/progress", timeout=30)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def described(node: RunningNode, *groups: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "kraft.cli.admin.app", "groups", "describe", *groups]
    command += ["-b", node.kafka, "-o", "json"]
    document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)
    found: list[dict[str, Any]] = document["groups"]
    return found


def test_members_that_do_not_commit_are_distinguished_from_a_slow_one(node: RunningNode) -> None:
    producer = Producer({"bootstrap.servers": node.kafka, "linger.ms": 5})
    for topic in TOPICS:
        body = {"topic_name": topic, "partitions_count": 2}
        url = f"{node.admin}/v3/clusters/{node.cluster_id}/topics"
        assert httpx.post(url, json=body, timeout=30).status_code == 201
    never = member(node, "never", **{"enable.auto.commit": False})
    paused, slow, well = (member(node, topic) for topic in TOPICS[1:])

    def produce() -> None:
        for topic in TOPICS:
            for _ in range(5):
                producer.produce(topic, b"x", partition=0)
        producer.flush(10)
        time.sleep(0.1)

    has_paused = False

    def hold() -> None:
        nonlocal has_paused
        paused.poll(0.2)
        if not has_paused and paused.assignment():
            paused.pause([Place("paused", 0), Place("paused", 1)])
            has_paused = True

    def read_slowly() -> None:
        slow.poll(0.2)
        time.sleep(0.2)

    with background(produce, lambda: never.poll(0.1), hold, read_slowly, lambda: well.poll(0.1)):
        wanted = {"never": "commits_nothing", "paused": "commits_nothing", "slow": "slow"}
        deadline = time.monotonic() + PATIENCE_SECONDS
        health: dict[str, Any] = {}
        while time.monotonic() < deadline:
            health = httpx.get(f"{node.admin}/v1/cluster/health", timeout=30).json()
            late = {each["group_id"]: each for of_node in health["nodes"] for each in of_node["late_members"]}
            if {f"g-{topic}": pace for topic, pace in wanted.items()} == {
                group: each["pace"] for group, each in late.items()
            }:
                break
            time.sleep(1)
        else:
            pytest.fail(json.dumps(health["nodes"]))

        assert health["is_healthy"], health["reasons"]
        codes = {each["summary"].partition(":")[0]: each["code"] for each in health["warnings"]}
        stuck, slow_code = "group_member_stuck", "group_member_slow"
        assert codes == {"Group g-never": stuck, "Group g-paused": stuck, "Group g-slow": slow_code}
        assert "client-never at 127.0.0.1 has committed nothing for" in str(health["warnings"])
        assert "client-slow at 127.0.0.1 is slow: it commits, but its lag of" in str(health["warnings"])

        found = progress(node, "never")
        offsets = {each["partition_id"]: each["current_offset"] for each in found["partitions"]}
        assert offsets == {0: None, 1: None}
        assert [each["client_id"] for each in found["partitions"]] == ["client-never"] * 2
        assert [each["pace"] for each in found["partitions"]] == ["commits_nothing", "keeps_up"]
        assert [each["last_commit_ms"] for each in found["partitions"]] == [None, None]
        first = progress(node, "slow")["partitions"][0]
        assert first["pace"] == "slow"
        assert abs(first["last_commit_ms"] - 1000 * time.time()) < 30_000
        assert progress(node, "well")["late_members"] == []

        metrics = httpx.get(f"{node.admin}/metrics", timeout=30).text
        assert 'kraft_consumergroup_stuck_members{consumergroup="g-never"} 1' in metrics
        assert 'kraft_consumergroup_stuck_members{consumergroup="g-slow"}' not in metrics

        by_group = {each["group_id"]: each for each in described(node, "g-never", "g-slow", "g-well")}
        assert {group: [each["pace"] for each in told["late_members"]] for group, told in by_group.items()} == {
            "g-never": ["commits_nothing"],
            "g-slow": ["slow"],
            "g-well": [],
        }
    never.commit(asynchronous=False)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while progress(node, "never")["late_members"]:
        assert time.monotonic() < deadline
        time.sleep(1)
    for consumer in (never, paused, slow, well):
        consumer.close()
