"""What the HTTP admin shows to a principal that no entry names: every address refuses, except for a few that are
written down here."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from kraft.testing.cluster_thread import ClusterThread
from kraft.testing.pytest_plugin import StartCluster

TOPIC = "orders"
PLACES = {
    "cluster_id": "bG9jYWwta3JhZnQtdGVzdA",
    "topic_name": TOPIC,
    "broker_id": "1",
    "partition_id": "0",
}
"""Parts of addresses; any other part is "1"."""
QUERIES = {
    "/v1/topic-facts": {"topic": TOPIC},
    "/v1/topics/{topic_name}/records:search": {"key": "k"},
    "/v1/acls:test": {"principal": "User:a", "operation": "READ", "resource_type": "TOPIC", "resource_name": TOPIC},
}
CLUSTER = "/v3/clusters/{cluster_id}"
OPEN = (
    "/v1/cluster/health", "/v1/node", "/livez", "/readyz", "/healthz", "/v1/features",
    "/v3/clusters", CLUSTER, f"{CLUSTER}/brokers", f"{CLUSTER}/brokers/{{broker_id}}",
)  # fmt: skip
"""Whoever reaches the admin may ask: by Kafka's protocol it is everybody's, too."""
COUNTED = "/metrics"
"""Open unless kraft.admin.metrics.authorize is set."""
HIDING = (
    f"{CLUSTER}/topics", f"{CLUSTER}/topics/-/configs", f"{CLUSTER}/brokers/{{broker_id}}/partition-replicas",
    f"{CLUSTER}/consumer-groups", f"{CLUSTER}/consumer-groups/-/lag-summary", f"{CLUSTER}/share-groups",
    f"{CLUSTER}/streams-groups", "/v1/transactions",
)  # fmt: skip
"""Lists without what may not be seen."""


@pytest.fixture(scope="module")
def cluster(module_kraft_cluster: StartCluster) -> ClusterThread:
    started = module_kraft_cluster(
        1,
        security="sasl_plaintext",
        authorizer=True,
        admin=True,
        settings={"kraft.admin.principal": "User:nobody", "kraft.admin.metrics.authorize": True},
    )
    started.create_topic(TOPIC)
    started.coordinator("1")
    return started


def get(cluster: ClusterThread, address: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(cluster.admin_url + address, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def addresses(cluster: ClusterThread) -> Iterator[tuple[str, str]]:
    """The template of each that is read, and one that fits it."""
    _, described = get(cluster, "/openapi.json")
    for template, verbs in described["paths"].items():
        if "get" in verbs:
            parts = [each["name"] for each in verbs["get"].get("parameters", ()) if each["in"] == "path"]
            address = template.format(**{name: PLACES.get(name, "1") for name in parts})
            yield template, address + (f"?{urlencode(QUERIES[template])}" if template in QUERIES else "")


def test_a_user_without_permissions_sees_only_public_data(cluster: ClusterThread) -> None:
    seen: dict[str, int] = {}
    shown = []
    for template, address in addresses(cluster):
        if template not in OPEN:
            seen[template], body = get(cluster, address)
            if template in HIDING:
                shown += [(template, each) for each in body["data"]]
    assert set(OPEN) | set(HIDING) | {COUNTED} <= {template for template, _ in addresses(cluster)}
    assert {template: code for template, code in seen.items() if code != 403} == dict.fromkeys(HIDING, 200)
    assert shown == []
