"""A transaction that is in a partition and that no coordinator knows: Apache Kafka's tool finds it and ends it, and so
does ours."""

from __future__ import annotations

import json
import shlex
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java.kafka import tool
from jepsen.three_nodes import until
from kraft.cli.admin.app import main
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from kraft.rpc_client.cluster import Cluster
from kraft.testing.node_process import NodeProcess
from kraft.world.real import RealWorld
from tests.capabilities import require_capability

SECONDS_MAX = 60
PRODUCER_ID = 4711
BEFORE_VERIFICATION = 11
"""The last version of Produce whose transactions only the feature of verification asks a coordinator about."""
OPEN_SINCE_MS = 3_600_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """It refuses transactional records that no coordinator knows of, until that is changed while it runs."""
    with NodeProcess(tmp_path / "node", admin=True) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("payments", 1, 1)])["payments"].result(SECONDS_MAX)
        yield node


def write(node: NodeProcess, value: bytes, producer_id: int | None = None) -> int:
    """One record, within a transaction that nobody has begun if there is a producer id. The code of the answer."""
    record = Record(0, int(time.time() * 1000) - OPEN_SINCE_MS, None, value, ())
    batch = (
        build_batch([record])
        if producer_id is None
        else build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    request = ProduceRequest(
        transactional_id=None if producer_id is None else "ghost",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="payments", partition_data=[PartitionProduceData(index=0, records=batch)])],
    )

    async def send() -> int:
        host, port = node.bootstrap.rsplit(":", 1)
        async with Cluster(RealWorld(), [(host, int(port))]) as cluster:
            answer = await cluster.call(request, version=BEFORE_VERIFICATION)
            return int(answer.responses[0].partition_responses[0].error_code)

    return trio.run(send)


def committed(node: NodeProcess, wanted: int) -> list[bytes]:
    """The values that a reader of committed records sees, until it has as many."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe(["payments"])
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < wanted and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


@pytest.mark.java
def test_kafkas_tool_finds_a_hanging_transaction_and_aborts_it(
    node: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    require_capability("java17")
    require_capability("mvn")
    # Nobody has used a coordinator yet, so none can be asked: the client is to come again.
    assert write(node, b"refused", PRODUCER_ID) == ErrorCode.NOT_ENOUGH_REPLICAS
    unverified = ("configs", "set", "cluster", "transaction.partition.verification.enable=false")
    assert main([*unverified, "--bootstrap-server", node.bootstrap]) == 0
    assert write(node, b"never ended", PRODUCER_ID) == 0
    assert write(node, b"behind it") == 0
    assert main(["transactions", "producers", "payments-0", "--bootstrap-server", node.bootstrap]) == 0
    assert str(PRODUCER_ID) in capsys.readouterr().out
    common = ("transactions", "--bootstrap-server", node.bootstrap)
    # A coordinator that nobody has asked for yet has no topic: the tool asks it for all its transactions.
    found = tool(*common, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1")
    header, row = (line.split() for line in found.stdout.splitlines() if line.strip())
    assert header[:3] == ["Topic", "Partition", "ProducerId"]
    assert row[:3] == ["payments", "0", str(PRODUCER_ID)]
    tool(*common, "abort", "--topic", "payments", "--partition", "0", "--start-offset", "0")
    assert committed(node, 1) == [b"behind it"]
    again = tool(*common, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1")
    assert str(PRODUCER_ID) not in again.stdout


def test_our_tool_finds_a_hanging_transaction_and_leaves_live_ones_unchanged(
    node: NodeProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", node.bootstrap)
    # Nobody has used a coordinator yet; the first to ask has its topic made.
    live = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "live", "log_level": 0})
    live.init_transactions(SECONDS_MAX)
    live.begin_transaction()
    live.produce("payments", b"live", partition=0)
    assert live.flush(SECONDS_MAX) == 0
    assert main(["configs", "set", "cluster", "transaction.partition.verification.enable=false"]) == 0
    assert write(node, b"never ended", PRODUCER_ID) == 0
    assert late(node) == 1
    capsys.readouterr()
    assert main(["transactions", "find-hanging", "--open-for", "0", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    [hanging], [ongoing] = found["transactions"], found["ongoing"]
    assert (ongoing["transactional_id"], ongoing["start_offset"]) == ("live", 0)
    assert ongoing["ends_by_itself_ms"] > time.time() * 1000
    assert (hanging["topic"], hanging["producer_id"], hanging["transactional_id"]) == ("payments", PRODUCER_ID, None)
    program, *command = shlex.split(hanging["command"])
    assert program == "kraft"
    assert main([*command, "--yes"]) == 0
    live.commit_transaction(SECONDS_MAX)
    assert committed(node, 1) == [b"live"]
    capsys.readouterr()
    assert main(["transactions", "find-hanging", "--topic", "payments", "--open-for", "0", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"transactions": [], "ongoing": []}
    assert main(["transactions", "find-hanging", "--topic", "nothing"]) == 3
    assert late(node) == 0
    # Its markers are there; that they are is written down next.
    until(lambda: metric(node, 'kraft_transactions{state="complete_commit"}') == 1, "the end is not written down")
    assert metric(node, 'kraft_transactions_ended_total{outcome="committed"}') == 1


def late(node: NodeProcess) -> float:
    return metric(node, "kafka_server_replicamanager_partitionswithlatetransactionscount")


def metric(node: NodeProcess, series: str) -> float:
    with urllib.request.urlopen(f"{node.admin_url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    [value] = [line.rpartition(" ")[2] for line in lines if line.startswith(f"{series} ")]
    return float(value)
