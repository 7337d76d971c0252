"""Tasks of the exactly-once sink that write in transactions of their own, on a node with two-phase commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.admin.transactions import list_transactions
from kraft.rpc_client.cluster import Cluster
from kraft.spark.client.wire import WireCluster
from kraft.spark.sink.batch_commit import BatchContent, BatchOrigin, CommitRules, SinkIdentity, commit_batch
from kraft.spark.sink.exactly_once_writer import OnceWriter
from kraft.spark.sink.staging import Staging
from kraft.spark.sink.task_transaction import open_task_transaction
from kraft.testing.node_process import NodeProcess
from kraft.world.real import RealWorld
from tests.unit.spark.sink_rows import incoming_rows

TOPIC = "archive"
SINK = SinkIdentity("query", TOPIC, "")
RULES = CommitRules(60_000, "fail", once_a_run=False)
PADDING = b"x" * (100 << 10)
ROWS = 30
"""More than a task passes to the driver."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node", "--set", "transaction.two.phase.commit.enable=true") as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(60)
        yield node


@pytest.fixture
def wires(node: NodeProcess) -> Iterator[WireCluster]:
    opened = WireCluster(node.bootstrap)
    yield opened
    opened.close()


def attempt(wires: WireCluster, batch: int, task: int) -> OnceWriter:
    """An attempt at a task of large rows."""
    key = SINK.transactional_id
    writer = OnceWriter(
        wires,
        batch,
        task,
        0,
        Staging(wires, SINK.staging_topic),
        lambda: open_task_transaction(wires, key, "run", batch, 60_000),
    )
    writer.write(
        incoming_rows([(TOPIC, None, b"%d/%d %b" % (task, n, PADDING), None, None, None) for n in range(ROWS)])
    )
    return writer


def committed(node: NodeProcess) -> Counter[bytes]:
    """The rows that a reader of committed records gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "g",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(2)])
    found: Counter[bytes] = Counter()
    ended = 0
    while ended < 2:
        message = consumer.poll(60)
        assert message is not None
        problem = message.error()
        if problem is None:
            found[bytes(message.value() or b"").partition(b" ")[0]] += 1
            continue
        assert problem.code() == KafkaError._PARTITION_EOF, problem
        ended += 1
    consumer.close()
    return found


def open_ids(node: NodeProcess) -> list[str]:
    async def ask() -> list[str]:
        host, port = node.bootstrap.rsplit(":", 1)
        async with Cluster(RealWorld(), [(host, int(port))]) as cluster:
            return [each.transactional_id for each in await list_transactions(cluster, ["Ongoing"])]

    return trio.run(ask)


def test_tasks_write_large_batches_for_themselves_and_the_note_commits_the_chosen_ones(
    node: NodeProcess, wires: WireCluster
) -> None:
    unchosen, *chosen = (attempt(wires, 0, task) for task in (0, 0, 1))
    parcels = [parcel for each in (*chosen, unchosen) for parcel in each.finish()]
    assert parcels == []
    prepared = tuple(each.prepared for each in chosen if each.prepared is not None)
    assert len(prepared) == 2
    assert (committed(node), len(open_ids(node))) == (Counter(), 3)
    origin = BatchOrigin("query", 0, "run")
    content = BatchContent(2 * ROWS, (), prepared)
    assert commit_batch(wires, SINK, origin, content, RULES)
    assert committed(node) == Counter(b"%d/%d" % (task, n) for task in (0, 1) for n in range(ROWS))
    assert open_ids(node) == []
    node.kill()
    node.start()
    again = attempt(wires, 0, 0)
    again.finish()
    assert not commit_batch(wires, SINK, origin._replace(run="next"), content, RULES), "ending them again is harmless"
    assert committed(node).total() == 2 * ROWS
