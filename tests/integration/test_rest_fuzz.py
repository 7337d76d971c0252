"""Schemathesis over the live app: whatever the OpenAPI document allows gets an answer that the document announces,
and never a server error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from confluent_kafka import Consumer, TopicPartition
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kraft_http.app import create_app
from kraft_http.ports import NodeIdentity
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kraft.common.version import VERSION
from kraft.world.real import write_to_stderr
from tests.integration.rest_node import RunningNode, running_node
from tests.unit.api.socket_port import SocketPort

EXAMPLES = 200 if os.environ.get("KRAFT_SOAK") else 8
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
TOPIC, GROUP, SHARE_GROUP = "fuzzed", "fuzzers", "fuzzers-of-a-queue"
EVEN = "02468acegikmoqsuwyACEGIKMOQSUWY"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("fuzz")) as started:
        base = f"{started.admin}/v3/clusters/{started.cluster_id}"
        assert (
            httpx.post(f"{base}/topics", json={"topic_name": TOPIC, "partitions_count": 2}, timeout=30).status_code
            == 201
        )
        assert (
            httpx.post(
                f"{base}/topics/{TOPIC}/records",
                content=b'{"partition_id": 0, "value": {"data": 1}}' * 5,
                headers={"Content-Type": "application/json"},
                timeout=30,
            ).status_code
            == 200
        )
        consumer = Consumer({"bootstrap.servers": started.kafka, "group.id": GROUP})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 2)], asynchronous=False)
        consumer.close()
        reset = {"to": "earliest", "topics": [{"topic_name": TOPIC}], "validate_only": False}
        shares = f"{base}/share-groups/{SHARE_GROUP}"
        assert httpx.post(f"{shares}/offsets:reset", json=reset, timeout=30).status_code == 200
        yield started


def document() -> dict[str, Any]:
    """The same as the live app serves at /openapi.json, which a test below says; needed before any node runs."""
    port = SocketPort("127.0.0.1", 0, NodeIdentity(node_id=1, roles=("broker",), cluster_id="x", version=VERSION))
    return create_app(port, write_to_stderr).openapi()


OPERATIONS = [found.ok() for found in schemathesis.openapi.from_dict(document()).get_all_operations()]


def test_the_fuzzed_document_is_the_one_that_a_node_serves(node: RunningNode) -> None:
    assert httpx.get(f"{node.admin}/openapi.json", timeout=30).json() == document()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(data=st.data())
def test_every_operation_responds_as_documented(
    operation: schemathesis.schemas.APIOperation, node: RunningNode, data: st.DataObject
) -> None:
    """Half of the requests speak of things that exist, so that more than 404 is seen; those are not deleted."""
    case = data.draw(operation.as_strategy())
    path = case.path_parameters
    known = {"cluster_id": node.cluster_id, "broker_id": 1}
    if len(case.id) and case.id[-1] in EVEN and (case.method != "DELETE" or "configs" in case.path):
        known |= {
            "topic_name": TOPIC,
            "consumer_group_id": GROUP,
            "group_id": SHARE_GROUP,
            "partition_id": 0,
            "name": "retention.ms",
        }
    path.update({name: value for name, value in known.items() if name in path})
    if "timeout_ms" in case.query:
        case.query["timeout_ms"] = 0
    # Nobody answers as a new voter: 504 is the truth.
    checks = [check for check in CHECKS if check is not not_a_server_error or "voters" not in case.path]
    case.call_and_validate(base_url=node.admin, checks=checks, timeout=30)
