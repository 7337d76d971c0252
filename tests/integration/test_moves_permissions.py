"""Moves over HTTP by somebody who may move partitions and may not alter configurations."""

from __future__ import annotations

import httpx
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
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
    allow(started, ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER)
    allow(started, ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE)
    return started


def binding(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:mover", "*", operation, AclPermissionType.ALLOW)


def allow(cluster: ClusterThread, kind: ResourceType, name: str, operation: AclOperation) -> None:
    admin = AdminClient(cluster.client_settings("librdkafka", "admin"))
    for future in admin.create_acls([binding(kind, name, operation)]).values():
        future.result(30)


def test_an_unauthorized_throttle_refuses_its_move_and_a_move_without_a_throttle_runs(cluster: ClusterThread) -> None:
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


def test_the_throttle_of_a_move_that_is_rejected_later_is_removed(cluster: ClusterThread) -> None:
    """First its topics may not be altered, then nothing may be moved: rates of brokers are set before either."""
    here = f"{cluster.admin_url}/v1/reassignments"
    admin = AdminClient(cluster.client_settings("librdkafka", "admin"))
    wanted = AclBindingFilter(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        "User:mover",
        "*",
        AclOperation.ALTER,
        AclPermissionType.ALLOW,
    )
    for future in admin.delete_acls([wanted]).values():
        future.result(30)
    for operation in (AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE):
        allow(cluster, ResourceType.BROKER, "kafka-cluster", operation)
    target = 3 - cluster.leader(TOPIC)
    file = {"partitions": [{"topic": TOPIC, "partition": 0, "replicas": [target]}]}

    def refusal(answer: httpx.Response) -> str:
        return str(answer.json()["kafka_error"]["name"]) if answer.status_code == 403 else ""

    def start() -> str:
        return refusal(httpx.post(f"{here}?bytes_per_second=1000", json=file, timeout=30))

    def stays() -> bool:
        return bool(httpx.get(here, timeout=30).json()["throttle"])

    until(lambda: start() == "TOPIC_AUTHORIZATION_FAILED", "rates may not be set")
    until(lambda: not stays(), "rates stay")
    leave = f"{cluster.admin_url}/v1/brokers/{cluster.leader(TOPIC)}/decommission"
    refused = httpx.put(leave, json={"bytes_per_second": 1000}, timeout=30)
    assert refusal(refused) == "TOPIC_AUTHORIZATION_FAILED"
    until(lambda: not stays(), "rates of a decommissioning stay")
    allow(cluster, ResourceType.TOPIC, TOPIC, AclOperation.ALTER_CONFIGS)
    until(lambda: start() == "CLUSTER_AUTHORIZATION_FAILED", "topics may not be altered")
    until(lambda: not stays(), "the throttle stays")
    described = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, TOPIC)])
    [lists] = [future.result(30) for future in described.values()]
    assert not lists["leader.replication.throttled.replicas"].value
