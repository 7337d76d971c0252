"""Two-phase commit (KIP-939): a prepared transaction outlives its producer and its coordinator, and the next producer
or an operator ends it.

Apache Kafka 4.4's clients cannot request it: the requests are our own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.cli.admin.app import main
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from kraft.rpc_client.cluster import Cluster
from kraft.testing.node_process import NodeProcess
from kraft.world.real import RealWorld

SECONDS_MAX = 60
TOPIC, ID = "payments", "billing"
IMPLICIT = 12
"""First version of Produce that adds partitions to the transaction (KIP-890)."""
TRANSIENT = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node", "--set", "transaction.two.phase.commit.enable=true") as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS_MAX)
        yield node


def committed(node: NodeProcess) -> list[bytes | None]:
    """The values before the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "g",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    while True:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        problem = message.error()
        if problem is None:
            found.append(message.value())
            continue
        assert problem.code() == KafkaError._PARTITION_EOF, problem
        consumer.close()
        return found


def send(node: NodeProcess, request: Any, version: int | None = None) -> Any:
    """Send until the coordinator is loaded and at rest. Returns the response."""

    async def ask() -> Any:
        host, port = node.bootstrap.rsplit(":", 1)
        async with Cluster(RealWorld(), [(host, int(port))]) as cluster:
            return await cluster.call(request, version=version)

    deadline = time.monotonic() + SECONDS_MAX
    while (answer := trio.run(ask)) is not None and getattr(answer, "error_code", 0) in TRANSIENT:
        assert time.monotonic() < deadline, answer.error_code
    return answer


def init(node: NodeProcess, *, keep: bool) -> Any:
    """The response to InitProducerId with two-phase commit. The search for the coordinator creates its topic."""
    send(node, FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
    request = InitProducerIdRequest(
        transactional_id=ID, transaction_timeout_ms=1, enable2_pc=True, keep_prepared_txn=keep
    )
    answer = send(node, request)
    assert answer.error_code == 0
    return answer


def prepare(node: NodeProcess) -> tuple[int, int]:
    """Write one record in a transaction and leave it open. Returns its producer id and epoch."""
    made = init(node, keep=False)
    producer = made.producer_id, made.producer_epoch
    record = Record(0, int(time.time() * 1000), None, b"prepared", ())
    batch = build_batch(
        [record], producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, is_transactional=True
    )
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])]
    produce = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=30_000, topic_data=data)
    assert send(node, produce, IMPLICIT).responses[0].partition_responses[0].error_code == 0
    return producer


def end(node: NodeProcess, producer: tuple[int, int]) -> int:
    """Commit. Returns the error code."""
    request = EndTxnRequest(transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=True)
    return int(send(node, request).error_code)


def offered(node: NodeProcess) -> int:
    """The highest version of InitProducerId that the node offers."""
    answer = send(node, ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    return int(next(each.max_version for each in answer.api_keys if each.api_key == ApiKey.INIT_PRODUCER_ID))


def test_version_6_is_offered_only_with_two_phase_commit(node: NodeProcess, tmp_path: Path) -> None:
    assert offered(node) == 6
    with NodeProcess(tmp_path / "usual") as usual:
        assert offered(usual) == 5


def test_the_next_producer_commits_what_its_predecessor_prepared(
    node: NodeProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", node.bootstrap)
    prepared = prepare(node)
    assert committed(node) == []
    assert main(["transactions", "describe", ID]) == 0
    assert "never (two-phase commit)" in capsys.readouterr().out
    first = init(node, keep=True)
    node.kill()
    node.start()
    second = init(node, keep=True)
    assert [(each.ongoing_txn_producer_id, each.ongoing_txn_producer_epoch) for each in (first, second)] == [
        prepared,
        prepared,
    ]
    assert committed(node) == []
    for fenced in (prepared, (first.producer_id, first.producer_epoch)):
        assert end(node, fenced) == ErrorCode.PRODUCER_FENCED
    assert end(node, (second.producer_id, second.producer_epoch)) == 0
    assert committed(node) == [b"prepared"]
    assert init(node, keep=True).ongoing_txn_producer_id == -1


def test_an_operator_aborts_a_prepared_transaction_whose_application_is_gone(
    node: NodeProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", node.bootstrap)
    prepare(node)
    assert main(["transactions", "find-hanging", "--open-for", "0", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["transactions"] == []
    [ongoing] = found["ongoing"]
    assert (ongoing["transactional_id"], ongoing["two_phase"], ongoing["ends_by_itself_ms"]) == (ID, True, None)
    assert main(["transactions", "abort", f"{TOPIC}-0", "--start-offset", "0", "--yes"]) == 0
    capsys.readouterr()
    assert main(["transactions", "find-hanging", "--open-for", "0", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"transactions": [], "ongoing": []}
