"""Clients that push their metrics to one broker of three, or to several: what every node tells of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from kraft.common.ids import ZERO_UUID, uuid_to_text
from tests.integration.rest_cluster import Started
from tests.unit.telemetry.pushes import gauge, point, push
from tests.vectors.wire import Connection

SECONDS_MAX = 60.0
INTERVAL_S = 1.0
LATENCY = "org.apache.kafka.producer.node.request.latency.avg"
SUBSCRIBE = ("configs", "set", "client-metrics", "all", "metrics=*", f"interval.ms={int(INTERVAL_S * 1000)}")
GET, PUSH = "GetTelemetrySubscriptions", "PushTelemetry"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    started = Started(tmp_path_factory.mktemp("metered") / "cluster")
    try:
        kraft(started, 1, *SUBSCRIBE)
        for node in started.admins:
            until(lambda node=node: subscriptions_at(started, node) == ["*"], f"node {node} knows no subscription")
        yield started
    finally:
        started.process.terminate()
        started.process.communicate(timeout=60)


def kraft(cluster: Started, node: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line against one node."""
    at = ("--bootstrap-server", f"127.0.0.1:{cluster.ports[node - 1]}")
    command = [sys.executable, "-m", "kraft.cli.admin.app", *words, *at]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)


def until(wanted: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not wanted():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.2)


def request(cluster: Started, node: int, api: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send one request to a broker on a connection of its own. The client id is that of tests.vectors.wire."""
    with closing(Connection(("127.0.0.1", cluster.ports[node - 1]))) as connection:
        connection.send(api, 0, body)
        answer = connection.receive(api, 0)
        assert isinstance(answer, dict), answer
        return answer


def subscriptions_at(cluster: Started, node: int) -> list[str]:
    found: list[str] = request(cluster, node, GET, {"client_instance_id": ZERO_UUID})["requested_metrics"]
    return found


def push_to(cluster: Started, node: int, instance_id: bytes, latency_ms: float) -> None:
    """A client pushes its latency to a broker, which it may not have asked before: the answer is the same for all."""
    told = request(cluster, 1, GET, {"client_instance_id": instance_id})
    if told["error_code"]:
        time.sleep(INTERVAL_S)
        told = request(cluster, 1, GET, {"client_instance_id": instance_id})
    body = {
        "client_instance_id": instance_id,
        "subscription_id": told["subscription_id"],
        "metrics": push(gauge(LATENCY, point(latency_ms))),
    }
    assert request(cluster, node, PUSH, body)["error_code"] == 0


def by_rest(cluster: Started, node: int) -> tuple[list[dict[str, Any]], list[int], int]:
    """The clients, the brokers that did not answer, and the count, as a node tells."""
    told = cluster.get(node, "/v1/clients")
    return told["data"], [each["broker_id"] for each in told["unanswered_brokers"]], told["clients_count"]


def by_command(cluster: Started, node: int) -> tuple[list[dict[str, Any]], list[int], int]:
    told = json.loads(kraft(cluster, node, "clients", "list", "-o", "json").stdout)
    return told["clients"], [each["node_id"] for each in told["unanswered_brokers"]], told["clients_count"]


@contextmanager
def frozen(cluster: Started, node: int) -> Iterator[None]:
    pid = cluster.pid(node)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: cluster.get(1, f"/v1/brokers/{node}")["state"] == "running", f"broker {node} does not come back")


@pytest.mark.parametrize("told", [by_rest, by_command])
def test_every_node_lists_a_client_of_several_brokers_once_with_its_newest_report(
    cluster: Started, told: Callable[[Started, int], tuple[list[dict[str, Any]], list[int], int]]
) -> None:
    instance_id = os.urandom(15) + b"\x01"
    for broker, latency_ms in ((3, 7.0), (2, 9.0)):
        push_to(cluster, broker, instance_id, latency_ms)
    for node in cluster.admins:
        clients, silent, count = told(cluster, node)
        assert (silent, count) == ([], len({each["instance_id"] for each in clients}))
        [client] = [each for each in clients if each["instance_id"] == uuid_to_text(instance_id)]
        assert (client["broker_id"], client["latency_ms"], client["pushes"]) == (2, 9.0, 1)


def test_every_node_lists_a_producer_once(cluster: Started) -> None:
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in cluster.ports)
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "billing", "linger.ms": 0})

    def is_listed() -> bool:
        producer.produce("metered", b"v")
        producer.flush(10)
        return any(each["client_id"] == "billing" and each["pushes"] > 1 for each in by_rest(cluster, 1)[0])

    until(is_listed, "the producer pushes nothing")
    for node in cluster.admins:
        for told in (by_rest, by_command):
            [client] = [each for each in told(cluster, node)[0] if each["client_id"] == "billing"]
            assert client["latency_ms"] > 0


def test_clients_are_listed_while_the_broker_of_one_is_frozen_and_that_broker_is_named(cluster: Started) -> None:
    gone, there = os.urandom(15) + b"\x02", os.urandom(15) + b"\x03"
    push_to(cluster, 3, gone, 5.0)
    push_to(cluster, 2, there, 6.0)
    with frozen(cluster, 3):
        for node in (1, 2):
            clients, silent, _ = by_rest(cluster, node)
            assert silent == [3]
            assert uuid_to_text(there) in {each["instance_id"] for each in clients}
        clients, silent, _ = by_command(cluster, 1)
        assert silent == [3]
        assert uuid_to_text(there) in {each["instance_id"] for each in clients}
        listed = kraft(cluster, 2, "clients", "list", "-o", "wide")
        assert uuid_to_text(there) in listed.stdout
        assert "broker 3" in listed.stderr
    clients, silent, _ = by_rest(cluster, 1)
    assert (silent, uuid_to_text(gone) in {each["instance_id"] for each in clients}) == ([], True)
