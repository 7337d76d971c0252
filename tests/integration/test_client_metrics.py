"""Real clients push their metrics: librdkafka, and Java's console producer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from jepsen.java.kafka import TOOLS, java, tool
from tests.capabilities import require_capability
from tests.integration.kafka_tools import printed
from tests.integration.rest_node import RunningNode, running_node

SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("client-metrics")) as started:
        address = ("--bootstrap-server", started.kafka)
        tool("client-metrics", *address, "--alter", "--name", "all", "--metrics", "*", "--interval", "1000")
        yield started


def series(node: RunningNode, client_id: str) -> dict[str, float]:
    """The client's own metrics at /metrics, by name."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(httpx.get(f"{node.admin}/metrics", timeout=30).text):
        for sample in family.samples:
            if sample.name.startswith("kraft_client_") and sample.labels.get("client_id") == client_id:
                found[sample.name] = max(sample.value, found.get(sample.name, 0.0))
    return found


def kraft(node: RunningNode, *words: str) -> str:
    """What the command line prints."""
    command = [sys.executable, "-m", "kraft.cli.admin.app", *words, "--bootstrap-server", node.kafka]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def until(wanted: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not wanted():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_kafkas_tools_show_a_subscription(node: RunningNode) -> None:
    require_capability("java17")
    require_capability("mvn")
    described = (
        lambda: tool("client-metrics", "--bootstrap-server", node.kafka, "--describe"),
        lambda: tool("client-metrics", "--bootstrap-server", node.kafka, "--list"),
        lambda: tool(
            *("configs", "--bootstrap-server", node.kafka),
            *("--entity-type", "client-metrics", "--entity-name", "all", "--describe"),
        ),
    )
    of_metrics, listed, of_configs = printed(*described)
    assert listed.split() == ["all"]
    for text in (of_metrics, of_configs):
        assert "interval.ms=1000" in text
        assert "metrics=*" in text


def test_librdkafka_pushes_and_is_seen(node: RunningNode) -> None:
    producer = Producer({"bootstrap.servers": node.kafka, "client.id": "rd", "linger.ms": 0})

    def pushes() -> bool:
        producer.produce("metered", b"v")
        producer.flush(10)
        return "kraft_client_producer_node_request_latency_avg" in series(node, "rd")

    until(pushes)
    listed = httpx.get(f"{node.admin}/v1/clients", timeout=30).json()
    [client] = [each for each in listed["data"] if each["client_id"] == "rd"]
    assert (client["software_name"], client["address"], client["subscriptions"]) == (
        "confluent-kafka-python",
        "127.0.0.1",
        ["all"],
    )
    assert client["latency_ms"] > 0
    assert int(client["port"]) > 0
    described = kraft(node, "clients", "describe", client["instance_id"], "-o", "json")
    names = {each["name"] for each in json.loads(described)["metrics"]}
    assert "org.apache.kafka.producer.node.request.latency.avg" in names
    assert client["instance_id"] in kraft(node, "clients", "list", "-o", "wide")
    assert httpx.get(f"{node.admin}/v1/clients/{'A' * 22}", timeout=30).status_code == 404


def test_javas_console_producer_pushes_and_is_seen(node: RunningNode) -> None:
    require_capability("java17")
    require_capability("mvn")
    command = [*java("-Xmx256M"), TOOLS["console-producer"], "--bootstrap-server", node.kafka, "--topic", "metered"]
    command += ["--command-property", "client.id=java"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as producer:
        assert producer.stdin is not None

        def pushes() -> bool:
            assert producer.stdin is not None
            producer.stdin.write("v\n")
            producer.stdin.flush()
            return series(node, "java").get("kraft_client_producer_record_send_total", 0) > 0

        until(pushes)
        producer.stdin.close()
    assert producer.returncode == 0
