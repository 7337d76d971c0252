"""The last hour that three nodes keep: of the cluster, a topic, a group and a broker, from any of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.ephemeral import close_input, start

WAIT_SECONDS_MAX: Final = 60
RECORDS: Final = 300


class Watched:
    """Three nodes, a topic with records, and a group that has yet to read a third of them."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.nodes: list[dict[str, Any]] = document["nodes"]
        settings = {"bootstrap.servers": document["bootstrap"]}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("watched", 3, 3)])["watched"].result(30)
        for each in self.nodes:  # From its first look on, a node counts records.
            self.until(partial(self.has_looked, each["node_id"]))
        producer = Producer(settings)
        for number in range(RECORDS):
            producer.produce("watched", b"x" * 100, partition=number % 3)
        assert producer.flush(30) == 0
        consumer = Consumer({**settings, "group.id": "late", "enable.auto.commit": False})
        places = [TopicPartition("watched", 0, RECORDS // 3), TopicPartition("watched", 1, 0)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    def history(self, node: int, **query: object) -> dict[str, Any]:
        answer = httpx.get(f"{self.nodes[node]['admin_url']}/v1/history", params=query, timeout=30)  # type: ignore[arg-type]
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        assert all(len(values) == len(document["times_ms"]) for values in document["series"].values())
        assert sorted(document["units"]) == sorted(document["series"])
        return document

    def has_looked(self, broker: int) -> bool:
        return len(self.history(0, broker=broker)["times_ms"]) > 0

    def last(self, node: int, name: str, **query: object) -> float:
        values = self.history(node, **query)["series"].get(name, [])
        return values[-1] if values else -1.0

    def sum(self, node: int, name: str, **query: object) -> float:
        """Over the hour: numbers are a second's."""
        return 10 * sum(self.history(node, **query)["series"].get(name, []))

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with start("--json", "-n", "3") as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        assert process.stdout is not None
        yield Watched(json.loads(process.stdout.readline()))
        close_input(process)


def test_any_node_serves_the_history_of_all_nodes(watched: Watched) -> None:
    asked: list[dict[str, object]] = [{}, {"topic": "watched"}]
    for node in range(3):
        for query in asked:
            watched.until(partial(has_counted, watched, node, query))
            assert watched.sum(node, "bytes_in", **query) > RECORDS * 100
    assert all(moment % 10_000 == 0 for moment in watched.history(0)["times_ms"])


def has_counted(watched: Watched, node: int, query: dict[str, object]) -> bool:
    return watched.sum(node, "records_in", **query) > RECORDS * 0.9


def test_the_lag_history_of_a_group_is_kept_by_its_coordinator(watched: Watched) -> None:
    for node in range(3):
        watched.until(partial(is_behind, watched, node))
    assert watched.history(0, group="no such group")["series"] == {}


def is_behind(watched: Watched, node: int) -> bool:
    return watched.last(node, "lag", group="late") == RECORDS // 3


def test_a_broker_reports_its_load(watched: Watched) -> None:
    broker = watched.nodes[1]["node_id"]
    watched.until(lambda: watched.last(0, "requests", broker=broker) > 0)
    series = watched.history(0, broker=broker)["series"]
    assert all(0 <= share <= 1 for share in series["busy"])
    assert series["connections"][-1] > 0
    assert series["memory_bytes"][-1] > 10 << 20


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("topic=nothing", 404, "nothing"),
        ("broker=77", 404, "77"),
        ("topic=watched&group=late", 400, "exclude each other"),
        ("broker=-1", 400, "broker"),
    ],
)
def test_an_invalid_history_query_is_rejected_with_a_reason(
    watched: Watched, query: str, status: int, said: str
) -> None:
    answer = httpx.get(f"{watched.nodes[0]['admin_url']}/v1/history?{query}", timeout=30)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text


def test_a_node_that_does_not_respond_is_named_in_the_history(watched: Watched) -> None:
    frozen = watched.nodes[2]
    os.kill(frozen["pid"], signal.SIGSTOP)
    try:
        found = watched.history(0, topic="watched")
        assert [each["broker_id"] for each in found["unanswered_brokers"]] == [frozen["node_id"]]
        assert found["series"]["records_in"]
    finally:
        os.kill(frozen["pid"], signal.SIGCONT)


def test_the_history_of_topics_contains_their_size_and_rates(watched: Watched) -> None:
    for node in range(3):
        url = f"{watched.nodes[node]['admin_url']}/v1/topic-facts"
        answer = httpx.get(url, params={"topic": ["watched", "nothing"]}, timeout=30).json()
        [facts] = answer["data"]
        assert (facts["topic_name"], facts["records"]) == ("watched", RECORDS)
        assert facts["leader_bytes"] > RECORDS * 100
        assert facts["replica_bytes"] == 3 * facts["leader_bytes"]
        assert facts["records_in"] >= 0
    assert httpx.get(url, timeout=30).status_code == 400
