"""Searching in a topic of a real node over REST: what is found, how it is ended, and what it is bounded by."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from kraft_http.records.searching import RECORDS_PER_SECOND, SEARCHES_MAX

from tests.integration.rest_node import RunningNode, running_node

RECORDS, PARTITIONS = 200_000, 4
WHOLE_SECONDS = SEARCHES_MAX * RECORDS / RECORDS_PER_SECOND
"""What so many searches of the whole topic take at least, by the rate that they share."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """With a topic that takes seconds to look through."""
    with running_node(tmp_path_factory.mktemp("search")) as started:
        body = {"topic_name": "orders", "partitions_count": PARTITIONS}
        made = httpx.post(f"{started.admin}/v3/clusters/{started.cluster_id}/topics", json=body, timeout=30)
        assert made.status_code == 201
        producer = Producer({"bootstrap.servers": started.kafka, "partitioner": "murmur2_random", "linger.ms": 50})
        for number in range(RECORDS):
            producer.produce("orders", json.dumps({"order": {"id": number}}), f"customer-{number}")
            if number % 10_000 == 0:
                producer.poll(0)
                producer.flush(30)
        assert producer.flush(60) == 0
        yield started


@pytest.fixture
def http(node: RunningNode) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.admin, timeout=60) as client:
        yield client


def search(http: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    answer = http.get("/v1/topics/orders/records:search", params=query)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/jsonl"), answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_key_is_found_in_the_partition_where_java_clients_put_it(http: httpx.Client) -> None:
    start, *between, end = search(http, key="customer-77777")
    (hit,) = (line for line in between if line["kind"] != "progress")  # Which comes twice a second.
    assert (hit["kind"], hit["record"]["value"]["data"]) == ("hit", {"order": {"id": 77777}})
    assert start["partitions"] == [hit["record"]["partition_id"]]
    assert (end["reason"], end["hits"]) == ("all_read", 1)
    assert end["records_read"] < RECORDS / PARTITIONS * 1.1


def test_a_search_reports_progress_while_it_reads_and_its_rate_is_limited(http: httpx.Client) -> None:
    began = time.monotonic()
    told = search(http, where=".order.id == 199999")
    took = time.monotonic() - began
    assert [line["record"]["value"]["data"]["order"]["id"] for line in told if line["kind"] == "hit"] == [199999]
    progress = [line for line in told if line["kind"] == "progress"]
    assert len(progress) >= 2
    assert all(0 < line["offsets_read"] <= line["offsets_total"] == RECORDS for line in progress)
    assert (told[-1]["reason"], told[-1]["records_read"]) == ("all_read", RECORDS)
    assert took > 0.9 * RECORDS / RECORDS_PER_SECOND


def test_a_search_ends_at_the_requested_number_of_hits_or_time(http: httpx.Client) -> None:
    assert search(http, text="customer-1", limit=5)[-1]["reason"] == "hits"
    late = search(http, text="nowhere", seconds=1)[-1]
    assert (late["reason"], late["hits"]) == ("time", 0)
    assert 0 < late["offsets_read"] < RECORDS
    positions = late["next_offsets"]
    assert sum(positions.values()) == late["offsets_read"]


def test_a_search_over_the_limit_is_refused_and_a_disconnect_ends_a_search(http: httpx.Client) -> None:
    query = {"text": "nowhere", "seconds": 120}
    began = time.monotonic()
    with ExitStack() as stack:
        answers = [
            stack.enter_context(http.stream("GET", "/v1/topics/orders/records:search", params=query)).iter_lines()
            for _ in range(SEARCHES_MAX)
        ]
        assert [json.loads(next(answer))["kind"] for answer in answers] == ["start"] * SEARCHES_MAX
        refused = http.get("/v1/topics/orders/records:search", params=query)
        assert (refused.status_code, refused.json()["detail"]) == (429, "4 searches run on this node already.")
        asked = time.monotonic()
        assert http.get("/v1/node").status_code == 200
        assert time.monotonic() - asked < 1
    while http.get("/v1/topics/orders/records:search", params={"key": "customer-1", "to_offset": 1}).status_code == 429:
        assert time.monotonic() - began < WHOLE_SECONDS / 2, "they go on without their clients"


def test_a_search_of_a_missing_topic_or_with_an_unknown_parameter_is_rejected(http: httpx.Client) -> None:
    assert http.get("/v1/topics/missing/records:search?text=a").json()["error_code"] == 40403
    unknown = http.get("/v1/topics/orders/records:search?txt=a")
    assert unknown.status_code == 400
    assert "'txt'" in unknown.json()["detail"]
