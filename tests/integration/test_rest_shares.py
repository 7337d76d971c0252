"""Share groups over the HTTP admin: listed, described, reset and deleted, and refused while they are off."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

from tests.integration.rest_node import RunningNode, running_node

TOPIC, GROUP = "jobs", "team/workers one"
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("shares")) as started:
        yield started


@pytest.fixture
def http(node: RunningNode) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{node.admin}/v3/clusters/{node.cluster_id}", timeout=30) as client:
        yield client


def finish(node: RunningNode, group: str, topic: str, count: int) -> ShareConsumer:
    """A member of the group that has acknowledged `count` records. It must be closed."""
    consumer = ShareConsumer({"bootstrap.servers": node.kafka, "group.id": group, "client.id": "worker"})
    consumer.subscribe([topic])
    seen, deadline = 0, time.monotonic() + SECONDS_MAX
    while seen < count:
        assert time.monotonic() < deadline, seen
        seen += sum(each.error() is None for each in consumer.poll(timeout=1.0) or [])
    consumer.commit_sync()
    return consumer


def describe_records(node: RunningNode, group: str, form: str) -> str:
    """What `kraft share describe --records` prints."""
    command = [
        *(str(Path(sys.executable).with_name("kraft")), "share", "describe", group, "--records"),
        *("-o", form, "-b", node.kafka),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def produce(node: RunningNode, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": node.kafka, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0


def test_a_share_group_is_listed_described_reset_and_deleted_over_http(node: RunningNode, http: httpx.Client) -> None:
    created = http.post("/topics", json={"topic_name": TOPIC, "partitions_count": 1})
    assert created.status_code == 201
    here = "/share-groups/team%2Fworkers%20one"
    reset = {"to": "earliest", "topics": [{"topic_name": TOPIC}], "validate_only": False}
    assert http.post(f"{here}/offsets:reset", json=reset).status_code == 200  # It creates the group.
    produce(node, TOPIC, 5)
    consumer = finish(node, GROUP, TOPIC, 5)

    [listed] = http.get("/share-groups").json()["data"]
    assert (listed["kind"], listed["share_group_id"], listed["state"]) == ("KafkaShareGroup", GROUP, "STABLE")
    assert (listed["consumer_count"], listed["partition_count"], listed["assigned_topic_partitions"]) == (1, 1, None)
    assert [http.get(f"/share-groups?{query}").json()["data"] for query in ("q=none", "state=EMPTY")] == [[], []]
    group = http.get(listed["metadata"]["self"]).json()
    assert group["assigned_topic_partitions"] == [{"topic_name": TOPIC, "partition_id": 0}]
    assert group["group_epoch"] == group["assignment_epoch"] > 0
    assert http.get(group["coordinator"]["related"]).json()["broker_id"] == 1

    [member] = http.get(group["consumers"]["related"]).json()["data"]
    assert (member["client_id"], member["subscribed_topics"], member["partitions_count"]) == ("worker", [TOPIC], 1)
    assert http.get(member["metadata"]["self"]).json() == member
    [assignment] = http.get(member["assignments"]["related"]).json()["data"]
    assert (assignment["topic_name"], assignment["partition_id"]) == (TOPIC, 0)
    missing = http.get(f"{here}/consumers/nobody")
    assert (missing.status_code, missing.json()["error_code"]) == (404, 404)

    for method, path in (("POST", f"{here}/offsets:reset"), ("DELETE", here), ("DELETE", f"{here}/offsets/{TOPIC}")):
        refused = http.request(method, path, **({"json": reset} if method == "POST" else {}))
        assert (refused.status_code, refused.json()["kafka_error"]["name"]) == (409, "NON_EMPTY_GROUP"), path
    consumer.close()

    [offset] = http.get(f"{here}/offsets").json()["data"]
    assert (offset["topic_name"], offset["partition_id"], offset["start_offset"], offset["lag"]) == (TOPIC, 0, 5, 0)
    preview = http.post(f"{here}/offsets:reset", json={"to": "offset", "value": 2}).json()
    assert (preview["validate_only"], preview["data"][0]["current_offset"], preview["data"][0]["new_offset"]) == (
        True,
        5,
        2,
    )
    assert http.post(f"{here}/offsets:reset", json={"to": "shift", "value": 1}).status_code == 400
    assert http.post(f"{here}/offsets:reset", json={"to": "offset", "value": 2, "validate_only": False}).is_success
    [offset] = http.get(f"{here}/offsets").json()["data"]
    assert (offset["start_offset"], offset["lag"]) == (2, 3)

    [row] = http.get("/consumer-groups/-/lag-summary?include_share_groups=true&sort=-total_lag").json()["data"]
    assert (row["consumer_group_id"], row["type"], row["total_lag"], row["max_lag_topic_name"]) == (
        GROUP,
        "SHARE",
        3,
        TOPIC,
    )
    assert http.get("/consumer-groups/-/lag-summary").json()["data"] == []

    assert http.delete(f"{here}/offsets/{TOPIC}").status_code == 204
    assert http.delete(f"{here}/offsets/{TOPIC}").status_code == 404
    assert http.delete(here).status_code == 204
    for path in ("", "/consumers", "/offsets", "/consumers/x/assignments"):
        gone = http.get(f"{here}{path}")
        assert (gone.status_code, gone.json()["error_code"]) == (404, 40405), path
    assert http.delete(here).json()["error_code"] == 40405


def test_records_in_flight_are_listed_with_their_member_and_lock(node: RunningNode, http: httpx.Client) -> None:
    assert http.post("/topics", json={"topic_name": "held", "partitions_count": 1}).status_code == 201
    reset = {"to": "earliest", "topics": [{"topic_name": "held"}], "validate_only": False}
    assert http.post("/share-groups/holders/offsets:reset", json=reset).status_code == 200
    assert http.get("/share-groups/holders/records").json()["data"] == []
    produce(node, "held", 3)
    consumer = ShareConsumer(
        {"bootstrap.servers": node.kafka, "group.id": "holders", "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe(["held"])
    found: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < 3:
        assert time.monotonic() < deadline, found
        found += [each for each in consumer.poll(timeout=1.0) if each.error() is None]
    consumer.acknowledge(found[1], AcknowledgeType.REJECT)
    consumer.commit_sync()
    told = http.get("/share-groups/holders/records").json()
    assert told["ranges_count"] == len(told["data"]) == 3
    first, second, third = told["data"]
    [member] = http.get("/share-groups/holders/consumers").json()["data"]
    assert [(each["first_offset"], each["last_offset"], each["state"]) for each in told["data"]] == [
        (0, 0, "ACQUIRED"),
        (1, 1, "ARCHIVED"),
        (2, 2, "ACQUIRED"),
    ]
    assert first["consumer_id"] == third["consumer_id"] == member["consumer_id"]
    assert 0 < first["lock_ms"] <= 30_000
    assert (first["delivery_count"], second["consumer_id"], second["lock_ms"]) == (1, None, None)
    [group] = json.loads(describe_records(node, "holders", "json"))["groups"]
    assert [each["state"] for each in group["records"]["ranges"]] == ["acquired", "archived", "acquired"]
    assert "DELIVERIES" in describe_records(node, "holders", "table")
    consumer.close()
    assert http.get("/share-groups/none/records").status_code == 404


def test_a_consumer_group_is_no_share_group(node: RunningNode, http: httpx.Client) -> None:
    http.post("/topics", json={"topic_name": "other", "partitions_count": 1})
    reset = {"to": "earliest", "topics": [{"topic_name": "other"}], "validate_only": False}
    assert http.post("/consumer-groups/readers/offsets:reset", json=reset).status_code == 200
    for method, path in (("GET", ""), ("GET", "/offsets"), ("DELETE", ""), ("DELETE", "/offsets/other")):
        answer = http.request(method, f"/share-groups/readers{path}")
        assert (answer.status_code, answer.json()["error_code"]) == (404, 40405), (method, path)
    answer = http.post("/share-groups/readers/offsets:reset", json=reset)
    assert answer.status_code == 404, answer.text
    assert http.get("/consumer-groups/readers").status_code == 200


def test_share_groups_are_not_implemented_while_the_feature_is_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_node(tmp_path_factory.mktemp("off"), "--feature", "share.version=0") as started:
        base = f"{started.admin}/v3/clusters/{started.cluster_id}/share-groups"
        assert httpx.get(base, timeout=30).json()["data"] == []
        for path in ("/g", "/g/consumers", "/g/offsets"):
            answer = httpx.get(f"{base}{path}", timeout=30)
            assert (answer.status_code, "share.version=1" in answer.json()["detail"]) == (501, True), path
