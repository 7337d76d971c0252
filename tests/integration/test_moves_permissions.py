"""Moves over HTTP by somebody who may move partitions and may not alter configurations."""

from __future__ import annotations

import httpx
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from jepsen.three_nodes import until
from kraft.testing.cluster_thread import ClusterThread
from kraft.testing.pytest_plugin import StartCluster

TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster(module_kraft_cluster: StartCluster) -> ClusterThread:
    started = module_kraft_cluster(
        2, security="sasl_plaintext", authorizer=True, admin=True, settings={"kraft.admin.principal": "User:mover"}
    )
    started.create_topic(TOPIC, replicas=1)
    admin = AdminClient(started.client_settings("librdkafka", "admin"))
    allowed = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:mover", "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in (
            (ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER),
            (ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE),
        )
    ]
    for future in admin.create_acls(allowed).values():
        future.result(30)
    return started


def test_a_throttle_is_refused_before_anything_moves_and_a_move_without_one_is_not(cluster: ClusterThread) -> None:
    here = f"{cluster.admin_url}/v1/reassignments"
    told = until(lambda: (answer := httpx.get(here, timeout=30)).status_code == 200 and answer.json(), "no permission")
    assert (told["phase"], told["throttle"]) == ("idle", None)
    target = 3 - cluster.leader(TOPIC)
    file = {"partitions": [{"topic": TOPIC, "partition": 0, "replicas": [target]}]}
    refused = httpx.post(f"{here}?bytes_per_second=1000", json=file, timeout=30)
    assert (refused.status_code, refused.json()["kafka_error"]["name"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
    assert httpx.put(f"{here}/throttle", json={"bytes_per_second": 1000}, timeout=30).status_code == 403
    assert httpx.delete(f"{here}/throttle", timeout=30).status_code == 403
    leave = f"{cluster.admin_url}/v1/brokers/{target}/decommission"
    assert httpx.put(leave, json={"bytes_per_second": 1000}, timeout=30).status_code == 403
    assert cluster.leader(TOPIC) == 3 - target
    assert httpx.post(here, json=file, timeout=30).json()["ok"]
    until(lambda: cluster.leader(TOPIC) == target, "the partition does not move")
    assert httpx.post(f"{here}/cancel", json={}, timeout=30).status_code == 200
