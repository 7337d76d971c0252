"""The HTTP admin of a real node, over a real socket."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kraft_http.ui.pages import ASSETS
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.rest_node import RunningNode, running_node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("rest")) as started:
        yield started


@pytest.fixture
def http(node: RunningNode) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.admin, timeout=30, headers={"Content-Type": "application/json"}) as client:
        yield client


@pytest.fixture
def base(node: RunningNode) -> str:
    return f"/v3/clusters/{node.cluster_id}"


def make_topic(http: httpx.Client, base: str, name: str, **body: Any) -> dict[str, Any]:
    answer = http.post(f"{base}/topics", json={"topic_name": name, **body})
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


def test_the_size_of_a_log_directory_is_the_sum_of_its_replicas(node: RunningNode, http: httpx.Client) -> None:
    [listed] = http.get("/v1/brokers/1/log-dirs").json()["data"]
    [told] = http.get("/v1/brokers/1/log-dirs?replicas=false").json()["data"]
    assert told["replicas"] == []
    assert told["size_bytes"] == sum(each["size_bytes"] for each in listed["replicas"])
    assert told["path"] == listed["path"]
    assert told["total_bytes"] == listed["total_bytes"]


def test_the_cluster_broker_and_quorum_resources_agree(http: httpx.Client, base: str, node: RunningNode) -> None:
    [cluster] = http.get("/v3/clusters").json()["data"]
    assert (cluster["kind"], cluster["cluster_id"]) == ("KafkaCluster", node.cluster_id)
    assert cluster == http.get(cluster["metadata"]["self"]).json()
    [broker] = http.get(cluster["brokers"]["related"]).json()["data"]
    assert (f"{broker['host']}:{broker['port']}", broker["is_fenced"]) == (node.kafka, False)
    assert http.get(cluster["controller"]["related"]).json() == broker
    quorum = http.get(f"{base}/quorum").json()
    assert (quorum["leader_id"], [voter["node_id"] for voter in quorum["voters"]]) == (1, [1])


def test_rest_creates_describes_grows_and_deletes_a_topic(http: httpx.Client, base: str) -> None:
    checked = http.post(f"{base}/topics", json={"topic_name": "life", "partitions_count": 2, "validate_only": True})
    assert (checked.status_code, http.get(f"{base}/topics/life").status_code) == (200, 404)
    created = http.post(
        f"{base}/topics",
        json={"topic_name": "life", "partitions_count": 2, "configs": [{"name": "retention.ms", "value": "-1"}]},
    )
    assert (created.status_code, created.headers["location"]) == (201, created.json()["metadata"]["self"])
    topic = http.get(created.headers["location"]).json()
    assert (topic["partitions_count"], topic["replication_factor"], topic["is_internal"], topic["topic_id"]) == (
        2,
        1,
        False,
        created.json()["topic_id"],
    )
    assert "life" in [each["topic_name"] for each in http.get(f"{base}/topics").json()["data"]]
    assert http.patch(f"{base}/topics/life", json={"partitions_count": 4}).json()["partitions_count"] == 4
    partitions = http.get(topic["partitions"]["related"]).json()["data"]
    assert [partition["partition_id"] for partition in partitions] == [0, 1, 2, 3]
    replica = http.get(partitions[0]["leader"]["related"]).json()
    assert (replica["broker_id"], replica["is_leader"], replica["is_in_sync"]) == (1, True, True)
    assert len(http.get(f"{base}/brokers/1/partition-replicas").json()["data"]) >= 4
    assert http.delete(f"{base}/topics/life").status_code == 204
    assert http.get(f"{base}/topics/life").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error_code", "kafka"),
    [
        ("GET", "/topics/missing", None, 404, 40403, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("DELETE", "/topics/missing", None, 404, 40403, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("GET", "/topics/missing/configs", None, 404, 40403, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("POST", "/topics", {"topic_name": "errors"}, 400, 40002, "TOPIC_ALREADY_EXISTS"),
        ("POST", "/topics", {"topic_name": "wide", "replication_factor": 3}, 400, 40002, "INVALID_REPLICATION_FACTOR"),
        ("POST", "/topics", {"topic_name": "no/slash"}, 400, 40002, "INVALID_TOPIC_EXCEPTION"),
        (
            "POST",
            "/topics",
            {"topic_name": "bad", "configs": [{"name": "retention.ms", "value": "x"}]},
            400,
            40002,
            "INVALID_CONFIG",
        ),
        ("PATCH", "/topics/errors", {"partitions_count": 1}, 400, 40002, "INVALID_PARTITIONS"),
        ("GET", "/topics/errors/partitions/7", None, 404, 40403, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("GET", "/topics/errors/records?partition=0&offset=99", None, 400, 40002, "OFFSET_OUT_OF_RANGE"),
        ("GET", "/consumer-groups/missing", None, 404, 40405, "GROUP_ID_NOT_FOUND"),
        ("POST", "/topics", {"topic_name": 5}, 400, 400, None),
        ("POST", "/topics", {"topic_name": "x", "partitions": 5}, 400, 400, None),
        ("GET", "/brokers/99", None, 404, 404, None),
        ("GET", "/brokers/one", None, 400, 400, None),
        ("GET", "/topics/errors/configs/nope", None, 404, 404, None),
        ("GET", "/nothing/here", None, 404, 404, None),
        ("PUT", "/topics", {}, 405, 405, None),
    ],
)
def test_errors_have_the_status_code_and_body_of_rest_v3_and_of_problem_details(
    http: httpx.Client, base: str, method: str, path: str, body: Any, status: int, error_code: int, kafka: str | None
) -> None:
    if http.get(f"{base}/topics/errors").status_code == 404:
        make_topic(http, base, "errors")
    answer = http.request(method, base + path, json=body)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["error_code"]) == (status, status, error_code), answer.text
    assert (problem["message"], problem["instance"]) == (problem["detail"], (base + path).partition("?")[0])
    assert problem.get("kafka_error", {}).get("name") == kafka
    assert answer.headers["content-type"] == "application/json"
    asked = http.request(method, base + path, json=body, headers={"accept": "application/problem+json"})
    assert asked.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/topics/missing", None),
        ("DELETE", "/topics/missing", None),
        ("PATCH", "/topics/missing", {"partitions_count": 3}),
        ("GET", "/topics/missing/configs", None),
        ("PUT", "/topics/missing/configs/retention.ms", {"value": "1"}),
        ("GET", "/topics/missing/records", None),
    ],
)
def test_an_error_names_the_missing_topic(http: httpx.Client, base: str, method: str, path: str, body: Any) -> None:
    problem = http.request(method, base + path, json=body).json()
    assert (problem["status"], problem["detail"]) == (404, "topic missing does not exist")
    assert problem["kafka_error"]["retriable"] is False


def test_another_cluster_id_is_not_found(http: httpx.Client) -> None:
    assert http.get("/v3/clusters/other/topics").json()["error_code"] == 404


@pytest.mark.parametrize(
    ("path", "error_code"),
    [
        ("/topics/missing/partitions", 40403),
        ("/topics/missing/partitions/0", 40403),
        ("/topics/missing/partitions/0/offset", 40403),
        ("/topics/errors/partitions/7/offset", 40403),
        ("/topics/errors/partitions/7/replicas", 40403),
        ("/topics/errors/partitions/7/replicas/1", 40403),
        ("/topics/errors/partitions/0/replicas/9", 404),
        ("/topics/missing/configs/retention.ms", 40403),
        ("/brokers/99/configs", 404),
        ("/brokers/99/partition-replicas", 404),
        ("/consumer-groups/missing/consumers", 40405),
        ("/consumer-groups/missing/lags", 40405),
        ("/consumer-groups/missing/lag-summary", 40405),
        ("/consumer-groups/missing/lags/errors/partitions/0", 40405),
    ],
)
def test_a_missing_resource_is_reported_with_the_code_of_rest_v3(
    http: httpx.Client, base: str, path: str, error_code: int
) -> None:
    if http.get(f"{base}/topics/errors").status_code == 404:
        make_topic(http, base, "errors")
    answer = http.get(base + path)
    assert (answer.status_code, answer.json()["error_code"]) == (404, error_code), answer.text
    elsewhere = http.get(f"/v3/clusters/other{path}")
    assert (elsewhere.status_code, elsewhere.json()["error_code"]) == (404, 404)
    assert elsewhere.json()["message"] == "Cluster other does not exist."


def test_offsets_of_a_partition_accept_the_offset_type_of_rest_v3(http: httpx.Client, base: str) -> None:
    make_topic(http, base, "typed")
    here = f"{base}/topics/typed/partitions/0/offset"
    told = http.get(here, params={"offset_type": "earliest_and_latest"})
    assert told.json() == http.get(here).json()
    assert (told.json()["earliest_offset"], told.json()["latest_offset"]) == (0, 0)
    refused = http.get(here, params={"offset_type": "middle"})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "offset_type")


def test_authorized_operations_are_returned_on_request(http: httpx.Client, base: str, node: RunningNode) -> None:
    make_topic(http, base, "allowed")
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "allowed"})
    consumer.commit(offsets=[TopicPartition("allowed", 0, 0)], asynchronous=False)
    consumer.close()
    asked = {"include_authorized_operations": "true"}
    topic = ["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"]
    group = ["READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"]
    cluster = ["CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"]
    for path, expected in (
        ("/topics/allowed", topic),
        ("/topics?q=allowed", topic),
        ("/consumer-groups/allowed", group),
        ("/consumer-groups?q=allowed", group),
        ("", cluster),
    ):
        for parameters, operations in ((asked, expected), ({}, [])):
            query = "&".join(f"{name}={value}" for name, value in parameters.items())
            answer = http.get(f"{base}{path}{'&' if '?' in path else '?'}{query}" if query else f"{base}{path}").json()
            for each in answer.get("data", [answer]):
                assert each["authorized_operations"] == operations, path
    assert http.get("/v3/clusters", params=asked).json()["data"][0]["authorized_operations"] == cluster


def test_the_api_is_served_below_the_prefix_of_confluent_server_with_links_that_keep_it(
    http: httpx.Client, base: str, node: RunningNode
) -> None:
    make_topic(http, base, "prefixed", partitions_count=3)
    [cluster] = http.get("/kafka/v3/clusters").json()["data"]
    assert cluster["metadata"]["self"] == f"{node.admin}/kafka{base}"
    assert cluster["acls"]["related"] == f"{node.admin}/kafka{base}/acls"
    assert http.get(f"{base}").json()["acls"]["related"] == f"{node.admin}{base}/acls"
    topic = http.get(f"/kafka{base}/topics/prefixed").json()
    partitions = http.get(topic["partitions"]["related"])
    assert partitions.json()["metadata"]["self"] == f"{node.admin}/kafka{base}/topics/prefixed/partitions"
    page = http.get(f"/kafka{base}/topics?page_size=1").json()
    assert page["metadata"]["next"].startswith(f"{node.admin}/kafka{base}/topics?")
    assert http.get(page["metadata"]["next"]).status_code == 200
    assert http.get(f"/kafka{base}/consumer-groups/a%2Fb").json()["kafka_error"]["name"] == "GROUP_ID_NOT_FOUND"
    sent = http.post(f"/kafka{base}/topics/prefixed/records", content=b'{"value": {"type": "JSON", "data": 1}}')
    assert sent.json()["error_code"] == 200
    missing = http.get(f"/kafka{base}/topics/missing")
    assert (missing.json()["error_code"], missing.json()["instance"]) == (40403, f"/kafka{base}/topics/missing")
    assert missing.headers["content-type"] == "application/json"
    for path in ("/kafka/v1/node", "/kafka", "/kafka/v3x", f"/kafka/kafka{base}", "/kafka/livez"):
        assert http.get(path).status_code == 404, path
    assert not any(path.startswith("/kafka") for path in http.get("/openapi.json").json()["paths"])


def test_rest_reads_sets_alters_and_resets_topic_configs(http: httpx.Client, base: str) -> None:
    make_topic(http, base, "configured", configs=[{"name": "retention.ms", "value": "5000"}])
    here = f"{base}/topics/configured/configs"
    assert len(http.get(here).json()["data"]) == 37
    entry = http.get(f"{here}/retention.ms").json()
    assert (entry["value"], entry["source"], entry["is_default"], entry["synonyms"][0]["value"]) == (
        "5000",
        "DYNAMIC_TOPIC_CONFIG",
        False,
        "5000",
    )
    assert http.put(f"{here}/retention.ms", json={"value": "6000"}).status_code == 204
    assert http.get(f"{here}/retention.ms").json()["value"] == "6000"
    changes = [
        {"name": "cleanup.policy", "value": "compact", "operation": "APPEND"},
        {"name": "retention.ms", "operation": "DELETE"},
    ]
    assert http.post(f"{here}:alter", json={"data": changes, "validate_only": True}).status_code == 204
    assert http.get(f"{here}/cleanup.policy").json()["value"] == "delete"
    assert http.post(f"{here}:alter", json={"data": changes}).status_code == 204
    assert [http.get(f"{here}/{name}").json()["value"] for name in ("cleanup.policy", "retention.ms")] == [
        "delete,compact",
        "604800000",
    ]
    assert http.delete(f"{here}/cleanup.policy").status_code == 204
    assert http.get(f"{here}/cleanup.policy").json()["is_default"]


def test_rest_reads_and_sets_configs_of_brokers_and_the_cluster(http: httpx.Client, base: str) -> None:
    fixed = http.get(f"{base}/brokers/1/configs/num.partitions").json()
    assert (fixed["is_read_only"], fixed["value"]) == (True, "1")
    assert "no partitions" not in fixed["documentation"]
    assert (
        http.put(f"{base}/brokers/1/configs/num.partitions", json={"value": "2"}).json()["kafka_error"]["name"]
        == "INVALID_REQUEST"
    )
    assert http.put(f"{base}/broker-configs/log.retention.ms", json={"value": "7000000"}).status_code == 204
    assert http.get(f"{base}/broker-configs/log.retention.ms").json()["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert http.delete(f"{base}/broker-configs/log.retention.ms").status_code == 204
    assert http.get(f"{base}/broker-configs/log.retention.ms").status_code == 404


def test_a_stream_of_records_is_reported_in_order_and_read_back(http: httpx.Client, base: str) -> None:
    make_topic(http, base, "stream", partitions_count=2)
    records = [
        {"partition_id": 1, "key": {"type": "STRING", "data": f"k{n}"}, "value": {"type": "JSON", "data": {"n": n}}}
        for n in range(50)
    ]
    records.insert(3, {"value": {"type": "BINARY", "data": "not base64!"}})
    answer = http.post(f"{base}/topics/stream/records", content="".join(map(json.dumps, records)))
    reports = [json.loads(line) for line in answer.text.splitlines()]
    assert (answer.status_code, len(reports), reports[3]["error_code"]) == (200, 51, 400)
    assert [report["offset"] for report in reports if report["error_code"] == 200] == list(range(50))
    assert reports[0]["value"] == {"type": "JSON", "size": 7}
    read = http.get(f"{base}/topics/stream/records", params={"partition": 1, "offset": 10, "limit": 5}).json()
    assert [(record["offset"], record["key"]["data"], record["value"]["data"]) for record in read["data"]] == [
        (n, f"k{n}", {"n": n}) for n in range(10, 15)
    ]
    assert (read["next_offsets"], read["end_offsets"]) == ({"1": 15}, {"1": 50})
    tail = http.get(f"{base}/topics/stream/records", params={"tail": 2}).json()
    assert [record["offset"] for record in tail["data"]] == [48, 49]


def test_produce_reports_arrive_before_the_request_ends(node: RunningNode, http: httpx.Client, base: str) -> None:
    make_topic(http, base, "duplex")
    seen: list[bytes] = []

    def records() -> Iterator[bytes]:
        for n in range(5):
            yield json.dumps({"value": {"type": "JSON", "data": n}}).encode()

    with http.stream("POST", f"{base}/topics/duplex/records", content=records()) as answer:
        seen += list(answer.iter_lines())
    assert [json.loads(line)["offset"] for line in seen if line] == [0, 1, 2, 3, 4]


def test_a_single_bad_record_and_an_empty_body_are_bad_requests(http: httpx.Client, base: str) -> None:
    make_topic(http, base, "lone")
    assert (
        http.post(f"{base}/topics/lone/records", content=b'{"value": {"type": "BINARY", "data": "!"}}').status_code
        == 400
    )
    assert http.post(f"{base}/topics/lone/records", content=b"{nonsense").status_code == 400
    empty = http.post(f"{base}/topics/lone/records", content=b"")
    assert (empty.status_code, empty.json()["error_code"]) == (422, 422)
    assert http.post(f"{base}/topics/missing/records", content=b"{}").status_code == 404


@pytest.mark.parametrize("address", ["records", "records:batch"])
def test_records_with_an_idempotency_key_are_rejected(http: httpx.Client, base: str, address: str) -> None:
    name = f"once-{len(address)}"
    make_topic(http, base, name)
    body = {"entries": [{"id": "a", "value": {"data": 1}}]} if address == "records:batch" else {"value": {"data": 1}}
    refused = http.post(f"{base}/topics/{name}/{address}", json=body, headers={"Idempotency-Key": "k"})
    assert refused.status_code == 400
    assert "records sent again are appended again" in refused.json()["detail"]
    assert http.get(f"{base}/topics/{name}/records").json()["data"] == []


def test_a_produced_batch_is_reported_by_entry_id(http: httpx.Client, base: str) -> None:
    make_topic(http, base, "batch")
    entries = [
        {"id": "good", "value": {"type": "STRING", "data": "é"}},
        {"id": "bad", "value": {"type": "BINARY", "data": "!"}},
    ]
    answer = http.post(f"{base}/topics/batch/records:batch", json={"entries": entries})
    assert answer.status_code == 207
    assert [(entry["id"], entry["offset"], entry["value"]["size"]) for entry in answer.json()["successes"]] == [
        ("good", 0, 2)
    ]
    assert [(entry["id"], entry["error_code"]) for entry in answer.json()["failures"]] == [("bad", 400)]
    twice = http.post(f"{base}/topics/batch/records:batch", json={"entries": entries[:1] * 2})
    assert (twice.status_code, twice.json()["error_code"]) == (400, 42208)


def test_records_of_kafka_clients_are_shown_whatever_their_bytes(
    node: RunningNode, http: httpx.Client, base: str
) -> None:
    make_topic(http, base, "mixed")
    producer = Producer({"bootstrap.servers": node.kafka, "compression.type": "zstd"})
    for key, value in ((b"k", b'{"a": 1}'), (None, b"plain"), (b"\xff", b"\xff\x00"), (b"k", None)):
        producer.produce("mixed", key=key, value=value, headers=[("h", b"\x01")], timestamp=1_700_000_000_000)
    assert producer.flush(20) == 0
    shown = http.get(f"{base}/topics/mixed/records").json()["data"]
    assert [record["value"] for record in shown] == [
        {"type": "JSON", "data": {"a": 1}},
        {"type": "STRING", "data": "plain"},
        {"type": "BINARY", "data": "/wA="},
        None,
    ]
    assert shown[0]["headers"] == [{"name": "h", "name_type": "STRING", "value": "AQ=="}]
    assert shown[0]["timestamp"] == "2023-11-14T22:13:20.000Z"
    binary = http.get(f"{base}/topics/mixed/records", params={"format": "BINARY", "limit": 1}).json()["data"]
    assert binary[0]["value"] == {"type": "BINARY", "data": "eyJhIjogMX0="}


def test_rest_lists_offsets_by_position_and_timestamp_and_deletes_records(http: httpx.Client, base: str) -> None:
    make_topic(http, base, "offsets", configs=[{"name": "retention.ms", "value": "-1"}])
    body = "".join(json.dumps({"value": {"data": n}, "timestamp": f"2024-01-0{n + 1}T00:00:00Z"}) for n in range(5))
    assert http.post(f"{base}/topics/offsets/records", content=body).status_code == 200
    at = http.get(f"{base}/topics/offsets/partitions/0/offset", params={"timestamp": 1_704_240_000_000}).json()
    assert (at["earliest_offset"], at["latest_offset"], at["offset"]) == (0, 5, 2)
    since = http.get(f"{base}/topics/offsets/records", params={"timestamp": 1_704_240_000_000}).json()["data"]
    assert [record["value"]["data"] for record in since] == [2, 3, 4]
    cut = http.delete(f"{base}/topics/offsets/partitions/0/records", params={"before_offset": 3})
    assert (cut.status_code, cut.json()["low_watermark"]) == (200, 3)
    assert [record["offset"] for record in http.get(f"{base}/topics/offsets/records").json()["data"]] == [3, 4]


def test_rest_describes_groups_members_commits_and_lag(node: RunningNode, http: httpx.Client, base: str) -> None:
    make_topic(http, base, "lagging", partitions_count=2)
    body = "".join(json.dumps({"partition_id": n % 2, "value": {"data": n}}) for n in range(10))
    assert http.post(f"{base}/topics/lagging/records", content=body).status_code == 200
    group_id = "team/readers one"
    settings = {
        "bootstrap.servers": node.kafka,
        "group.id": group_id,
        "client.id": "c1",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.subscribe(["lagging"])
    try:
        assert len(consumer.consume(10, 20)) == 10
        consumer.commit(offsets=[TopicPartition("lagging", 0, 5), TopicPartition("lagging", 1, 2)], asynchronous=False)
        here = f"{base}/consumer-groups/team%2Freaders%20one"
        group = http.get(here).json()
        assert (group["consumer_group_id"], group["state"], group["type"], group["partition_assignor"]) == (
            group_id,
            "STABLE",
            "CLASSIC",
            "range",
        )
        assert group_id in [each["consumer_group_id"] for each in http.get(f"{base}/consumer-groups").json()["data"]]
        [member] = http.get(group["consumers"]["related"]).json()["data"]
        assert (member["client_id"], member["host"]) == ("c1", "/127.0.0.1")
        assigned = http.get(member["assignments"]["related"]).json()["data"]
        assert [each["partition_id"] for each in assigned] == [0, 1]
        offsets = http.get(f"{here}/offsets").json()["data"]
        assert [(each["offset"], each["committed_metadata"]) for each in offsets] == [(5, ""), (2, "")]
        lags = http.get(f"{here}/lags").json()["data"]
        assert [(lag["partition_id"], lag["current_offset"], lag["log_end_offset"], lag["lag"]) for lag in lags] == [
            (1, 2, 5, 3),
            (0, 5, 5, 0),
        ]
        assert http.get(assigned[1]["lag"]["related"]).json() == lags[0]
        summary = http.get(group["lag_summary"]["related"]).json()
        assert (
            summary["total_lag"],
            summary["max_lag"],
            summary["max_lag_partition_id"],
            summary["max_lag_client_id"],
        ) == (3, 3, 1, "c1")
        assert metric(http, "kafka_consumergroup_lag", consumergroup=group_id, topic="lagging", partition="1") == 3
        assert metric(http, "kafka_consumergroup_lag_sum", consumergroup=group_id, topic="lagging") == 3
        assert http.delete(here).status_code == 409
        listed = http.get(f"{base}/consumer-groups/-/lag-summary", params={"q": "readers", "topic": "lagging"}).json()
        [line] = listed["data"]
        assert (line["consumer_group_id"], line["state"], line["members_count"]) == (group_id, "STABLE", 1)
        assert (line["total_lag"], line["max_lag"], line["max_lag_partition_id"], line["topics"]) == (
            3,
            3,
            1,
            ["lagging"],
        )
        other = http.get(f"{base}/consumer-groups/-/lag-summary", params={"q": "readers", "topic": "other"}).json()
        assert other["data"] == []
        refused = http.post(f"{here}/offsets:reset", json={"to": "latest", "validate_only": False})
        assert refused.status_code == 409
        assert "1 members" in refused.json()["detail"]
    finally:
        consumer.close()
    previewed = http.post(f"{here}/offsets:reset", json={"to": "shift", "value": -4}).json()
    assert previewed["validate_only"] is True
    assert [(move["current_offset"], move["new_offset"]) for move in previewed["data"]] == [(5, 1), (2, 0)]
    assert [each["offset"] for each in http.get(f"{here}/offsets").json()["data"]] == [5, 2]
    moved = http.post(f"{here}/offsets:reset", json={"to": "shift", "value": -4, "validate_only": False})
    assert moved.status_code == 200, moved.text
    assert [each["offset"] for each in http.get(f"{here}/offsets").json()["data"]] == [1, 0]
    one = {"to": "latest", "topics": [{"topic_name": "lagging", "partitions": [1]}], "validate_only": False}
    assert http.post(f"{here}/offsets:reset", json=one).status_code == 200
    assert [each["offset"] for each in http.get(f"{here}/offsets").json()["data"]] == [1, 5]
    missing = http.post(f"{here}/offsets:reset", json={"to": "latest", "topics": [{"topic_name": "missing"}]})
    assert (missing.status_code, missing.json()["detail"]) == (404, "topic missing does not exist")
    assert http.post(f"{here}/offsets:reset", json={"to": "offset"}).status_code == 400
    assert http.delete(here).status_code == 204
    assert http.get(here).status_code == 404


def test_a_topic_lists_the_groups_that_consume_it_or_committed_offsets(
    node: RunningNode, http: httpx.Client, base: str
) -> None:
    make_topic(http, base, "asked", partitions_count=3)
    make_topic(http, base, "besides")
    producer = Producer({"bootstrap.servers": node.kafka})
    for partition in (0, 0, 0, 1):
        producer.produce("asked", b"v", partition=partition)
    producer.produce("besides", b"v")
    assert producer.flush(30) == 0
    for group, topic in (("topic-a", "asked"), ("topic-b", "besides")):
        committing = Consumer({"bootstrap.servers": node.kafka, "group.id": group})
        committing.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        committing.close()
    reading = Consumer({"bootstrap.servers": node.kafka, "group.id": "topic-c", "enable.auto.commit": False})
    reading.subscribe(["asked"])
    deadline = time.monotonic() + 30
    while not reading.assignment():
        reading.poll(0.1)
        assert time.monotonic() < deadline
    told = http.get("/v1/topics/asked/groups").json()
    by_id = {each["consumer_group_id"]: each for each in told["data"]}
    assert list(by_id) == ["topic-a", "topic-c"]
    counts = ("assigned_partitions_count", "committed_partitions_count", "lag", "members_count")
    assert [by_id["topic-a"][name] for name in counts] == [0, 1, 2, 0]
    assert [by_id["topic-c"][name] for name in counts] == [3, 0, None, 1]
    assert told["looked_at_count"] == told["groups_count"] == 2
    assert http.get("/v1/topics/missing/groups").status_code == 404
    reading.close()


def metric(http: httpx.Client, name: str, **labels: str) -> float | None:
    samples = [
        sample for family in text_string_to_metric_families(http.get("/metrics").text) for sample in family.samples
    ]
    return next((sample.value for sample in samples if sample.name == name and sample.labels == labels), None)


def test_lists_are_paged_on_request(http: httpx.Client, base: str) -> None:
    for number in range(5):
        make_topic(http, base, f"page-{number}")
    url: str | None = f"{base}/topics?page_size=2&q=page-"
    pages: list[list[str]] = []
    while url is not None:
        answer = http.get(url).json()
        pages.append([topic["topic_name"] for topic in answer["data"]])
        url = answer["metadata"]["next"]
    assert pages == [["page-0", "page-1"], ["page-2", "page-3"], ["page-4"]]
    assert http.get(f"{base}/topics?page_token=%21").status_code == 400
    make_topic(http, base, "page-wide", partitions_count=3)
    url, pages = f"{base}/topics?page_size=4&q=page-&sort=-partitions_count", []
    while url is not None:
        answer = http.get(url)
        assert answer.headers["x-total-count"] == "6"
        pages.append([topic["topic_name"] for topic in answer.json()["data"]])
        url = answer.json()["metadata"]["next"]
    assert pages == [["page-wide", "page-4", "page-3", "page-2"], ["page-1", "page-0"]]
    assert http.get(f"{base}/topics?sort=colour").status_code == 400


def test_rest_sorts_topics_by_size_and_lists_empty_ones(node: RunningNode, http: httpx.Client, base: str) -> None:
    producer = Producer({"bootstrap.servers": node.kafka})
    for name, count in (("holds-a", 2), ("holds-b", 0), ("holds-c", 3), ("holds-d", 0)):
        make_topic(http, base, name)
        for _ in range(count):
            producer.produce(name, b"v" * 100)
    assert producer.flush(30) == 0
    url: str | None = f"{base}/topics?page_size=2&q=holds-&sort=-records"
    pages = []
    while url is not None:
        answer = http.get(url).json()
        pages.append([topic["topic_name"] for topic in answer["data"]])
        url = answer["metadata"]["next"]
    assert pages == [["holds-c", "holds-a"], ["holds-d", "holds-b"]]

    def names(query: str) -> list[str]:
        return [topic["topic_name"] for topic in http.get(f"{base}/topics?q=holds-&{query}").json()["data"]]

    assert names("sort=leader_bytes") == ["holds-b", "holds-d", "holds-a", "holds-c"]
    assert names("empty_only=true") == ["holds-b", "holds-d"]


def test_rest_lists_transactions_and_users(node: RunningNode, http: httpx.Client) -> None:
    producer = Producer({"bootstrap.servers": node.kafka, "transactional.id": "listed"})
    producer.init_transactions(30)
    listed = http.get("/v1/transactions", params={"q": "listed", "page_size": 1}).json()
    [found] = listed["data"]
    assert (found["transactional_id"], found["coordinator_id"], found["topics"]) == ("listed", 1, [])
    assert listed["metadata"]["next"] is None
    assert http.get("/v1/users").json() == {"data": []}


def test_without_logins_there_are_no_tokens_and_without_an_authorizer_no_acls(http: httpx.Client) -> None:
    cluster = http.get("/v3/clusters").json()["data"][0]["metadata"]["self"]
    refused = http.get(f"{cluster}/acls")
    assert (refused.status_code, refused.json()["kafka_error"]["name"]) == (400, "SECURITY_DISABLED")
    asked = {"principal": "User:x", "operation": "READ", "resource_type": "TOPIC", "resource_name": "t"}
    assert http.get("/v1/acls:test", params=asked).json() == {"allowed": True, "reason": "NO_AUTHORIZER", "entry": None}
    for refused in (http.get("/v1/delegation-tokens"), http.post("/v1/delegation-tokens", json={})):
        assert refused.status_code == 403
        assert refused.json()["kafka_error"]["name"] == "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


def test_health_probes_and_metrics_are_served(http: httpx.Client, node: RunningNode) -> None:
    health = http.get("/v1/cluster/health").json()
    assert (health["is_healthy"], health["reasons"], health["controller_id"], health["brokers"]) == (True, [], 1, [1])
    for probe in ("/livez", "/readyz", "/healthz"):
        answer = http.get(probe)
        assert (answer.status_code, answer.json()["ok"]) == (200, True)
    assert http.get("/v1/node").json()["cluster_id"] == node.cluster_id
    assert metric(http, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert metric(http, "kafka_server_kafkaserver_brokerstate") == 3
    assert metric(http, "kafka_server_raftmetrics_current_state", state="leader") == 1
    assert (metric(http, "kafka_server_raftmetrics_append_records_rate") or 0) > 0
    assert metric(http, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert (metric(http, "kraft_loop_step_seconds_count") or 0) > 0, "a node that starts has steps of 1 ms"


def test_the_console_loads_nothing_from_other_hosts(http: httpx.Client) -> None:
    for path in ("/", "/docs"):
        answer = http.get(path)
        assert answer.headers["content-type"].startswith("text/html")
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert not [
            word
            for word in ("http://", "https://", "//cdn")
            if word in answer.text.replace("http://www.w3.org/2000/svg", "")
        ]
    assert http.get("/ui/topics").text == http.get("/").text == http.get("/ui").text


def test_the_console_has_no_inline_script_or_style(http: httpx.Client) -> None:
    policy = http.get("/ui/topic?name=x").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    for path in ("/", "/docs"):
        text = http.get(path).text
        assert not re.search(r"<style|style=|<script>| on\w+=", text)
        assert {f"/assets/{name}" for name in ASSETS} >= set(re.findall(r'"(/assets/[^"]+)"', text))
    for name in ASSETS:
        answer = http.get(f"/assets/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] in ("text/css", "text/javascript")
        assert len(answer.text.splitlines()) <= 500
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", answer.text)
    assert http.get("/assets/pages.py").status_code == 404


def test_a_cross_origin_request_changes_nothing(http: httpx.Client, base: str) -> None:
    make_topic(http, base, "kept")
    rebound = {"Host": "evil.example:8080"}
    assert http.get(f"{base}/topics", headers=rebound).json()["error_code"] == 40302
    assert http.delete(f"{base}/topics/kept", headers=rebound).json()["error_code"] == 40302
    assert http.post("/v1/brokers/1/fence", headers=rebound).json()["error_code"] == 40302
    record = b'{"value": {"type": "JSON", "data": 1}}'
    plain = http.post(f"{base}/topics/kept/records", content=record, headers={"Content-Type": "text/plain"})
    assert plain.json()["error_code"] == 415
    foreign = {"Content-Type": "application/json", "Origin": "http://evil.example"}
    assert http.post(f"{base}/topics/kept/records", content=record, headers=foreign).json()["error_code"] == 40303
    own = {
        "Content-Type": "application/json",
        "Origin": str(http.base_url).rstrip("/"),
        "Sec-Fetch-Site": "same-origin",
    }
    assert http.post(f"{base}/topics/kept/records", content=record, headers=own).json()["offset"] == 0


def test_a_read_only_admin_serves_reads_and_refuses_changes(tmp_path: Path) -> None:
    with (
        running_node(tmp_path, "--set", "kraft.admin.read.only=true") as node,
        httpx.Client(base_url=node.admin, timeout=30) as http,
    ):
        base = f"/v3/clusters/{node.cluster_id}"
        assert http.get(f"{base}/topics").status_code == 200
        refused = http.post(f"{base}/topics", json={"topic_name": "t"})
        assert (refused.status_code, refused.json()["error_code"]) == (403, 40301)


def test_rest_features_are_downgraded_and_upgraded(http: httpx.Client) -> None:
    def change(status: int = 200, **body: Any) -> Any:
        answer = http.post("/v1/features", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def until(level: int) -> None:
        wanted = {"name": "transaction.version", "level": level, "min_level": 0, "max_level": 2}
        deadline = time.monotonic() + 30
        while wanted not in (found := http.get("/v1/features").json()["data"]):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    levels = {"transaction.version": 1}
    change(levels=levels, direction="safe_downgrade", validate_only=True)
    until(2)
    assert change(levels=levels, direction="safe_downgrade") == {"levels": levels}
    until(1)
    change(levels={"transaction.version": 2})
    until(2)
    assert "only supports versions 0-2" in json.dumps(change(400, levels={"transaction.version": 3}))
    assert "without setting the upgrade type" in json.dumps(change(400, levels=levels))
    assert "levels" in json.dumps(change(400, levels={}))


def test_rest_quotas_are_set_listed_and_removed(http: httpx.Client) -> None:
    def change(status: int = 200, **body: Any) -> Any:
        answer = http.post("/v1/quotas", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def told(**wanted: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = http.get("/v1/quotas", params=wanted).json()["data"]
        return found

    def until(wanted: list[dict[str, Any]], **parts: str) -> None:
        deadline = time.monotonic() + 30
        while (found := told(**parts)) != wanted:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    whom = {"user": "alice", "client_id": None}
    change(entity=whom, set={"producer_byte_rate": 1e6}, validate_only=True)
    assert told(user="alice") == []
    assert change(entity=whom, set={"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}) == {
        "entity": whom,
        "limits": {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6},
    }
    until([{"entity": whom, "limits": {"consumer_byte_rate": 2e6, "producer_byte_rate": 1e6}}], user="alice")
    change(entity=whom, set={"producer_byte_rate": 3e6}, delete=["consumer_byte_rate"])
    until([{"entity": whom, "limits": {"producer_byte_rate": 3e6}}], user="alice")
    change(entity=whom, delete=["producer_byte_rate"])
    until([], user="alice")
    for body, why in (
        ({"entity": {}, "delete": ["producer_byte_rate"]}, "name a user"),
        ({"entity": whom}, "nothing to set"),
        ({"entity": {"ip": "10.0.0.1", "user": "u"}, "delete": ["producer_byte_rate"]}, "quotas of their own"),
        ({"entity": whom, "set": {"x": 1}, "delete": ["x"]}, "to be set and to be deleted"),
        ({"entity": {"ip": "10.0.0.1"}, "set": {"producer_byte_rate": 5}}, "producer_byte_rate"),
        ({"entity": whom, "set": {"producer_byte_rate": 0.5}}, "producer_byte_rate"),
    ):
        assert why in json.dumps(change(400, **body)), body
