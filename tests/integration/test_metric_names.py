"""What a scrape tells of the process, its connections and what happened, under the names that dashboards query."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.rest_node import RunningNode, running_node

Series = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("names")) as started:
        yield started


def scrape(node: RunningNode) -> Series:
    found: Series = {}
    for family in text_string_to_metric_families(httpx.get(f"{node.admin}/metrics", timeout=30).text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_the_process_is_told_as_prometheus_clients_tell_it(node: RunningNode) -> None:
    told = {name: series[()] for name, series in scrape(node).items() if name.startswith("process_")}
    assert time.time() - 600 < told.pop("process_start_time_seconds") <= time.time()
    assert 0 < told.pop("process_cpu_seconds_total") < 600
    assert 10 << 20 < told.pop("process_resident_memory_bytes") < 10 << 30
    assert 0 < told.pop("process_open_fds") < told.pop("process_max_fds")
    assert told == {}


def test_connections_members_and_events_are_counted(node: RunningNode) -> None:
    before = scrape(node)["kafka_server_socket_server_metrics_connection_count"]
    assert sorted(listener for ((_, listener),) in before) == ["CONTROLLER", "PLAINTEXT"]
    producer = Producer({"bootstrap.servers": node.kafka})
    producer.produce("t", b"x")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    while (record := consumer.poll(30)) is None or record.error():
        pass
    told = scrape(node)
    connections = told["kafka_server_socket_server_metrics_connection_count"]
    assert connections[("listener", "PLAINTEXT"),] > before[("listener", "PLAINTEXT"),]
    assert told["kafka_consumergroup_members"] == {(("consumergroup", "readers"),): 1}
    assert told["kafka_controller_controllerstats_uncleanleaderelections_total"] == {(): 0}
    assert told["kafka_server_replicamanager_offlinereplicacount"] == {(): 0}
    assert told["kafka_server_broker_metadata_metrics_lag"][()] >= 0
    assert told["kraft_events_total"]
    consumer.close()
