"""What real clients aborted stays aborted over an orderly stop of a real node, compacted or not, and in a data
directory whose transaction indexes an earlier release has lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from jepsen.three_nodes import until
from kraft.testing.foreign.librdkafka import AdminClient, Producer
from kraft.testing.node_process import NodeProcess
from tests.integration.transactions_of_one_key import COMPACTED, SECONDS_MAX, read_all, write_transactions

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "log.cleaner.backoff.ms": 100,
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(
        tmp_path, *(word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}"))
    ) as (node):
        yield node


def make_topic(node: NodeProcess, topic: str, config: dict[str, str]) -> Path:
    """Its one partition's directory."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    (created,) = admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values()
    created.result(SECONDS_MAX)
    return node.directory / "data" / f"{topic}-0"


def write(node: NodeProcess, topic: str, *transactions: tuple[bytes, bool]) -> None:
    write_transactions(node.bootstrap, topic, *transactions)


def read(node: NodeProcess, topic: str, isolation: str = "read_committed") -> list[bytes]:
    return read_all(node.bootstrap, topic, isolation)


def restart(node: NodeProcess, meanwhile: Callable[[], None] = lambda: None) -> None:
    assert node.stop() == 0
    meanwhile()
    node.start()


def until_cleaned(node: NodeProcess, topic: str, directory: Path) -> None:
    """The first of its segments was cleaned, and the record that was aborted first is gone. Records of another key
    let segments become too old."""
    producer = Producer({"bootstrap.servers": node.bootstrap})

    def is_gone() -> bool:
        producer.produce(topic, b"later", b"another", partition=0)
        producer.flush(SECONDS_MAX)
        try:
            return b"A1" not in (directory / f"{0:020d}.log").read_bytes()
        except FileNotFoundError:
            return False  # The cleaned one is just taking its place.

    until(is_gone, "nothing was cleaned", SECONDS_MAX)


def test_read_committed_returns_the_same_records_after_each_node_restart(node: NodeProcess) -> None:
    make_topic(node, "t", {})
    write(node, "t", (b"A1", False), (b"ok", True), (b"A2", False))
    assert read(node, "t", "read_uncommitted") == [b"A1", b"ok", b"A2"]
    restart(node)
    assert read(node, "t") == [b"ok"]
    restart(node)
    assert read(node, "t") == [b"ok"]


def test_compaction_after_a_shutdown_keeps_committed_records(node: NodeProcess) -> None:
    directory = make_topic(node, "c", COMPACTED)
    write(node, "c", (b"A1", False), (b"kept", True), (b"ABORTED", False))
    restart(node)
    until_cleaned(node, "c", directory)
    for isolation in ("read_committed", "read_uncommitted"):
        assert b"kept" in read(node, "c", isolation)
    assert set(read(node, "c")) == {b"kept", b"later"}


@pytest.mark.parametrize("lost", [("*.txnindex",), ("*index", "*.snapshot")])
def test_a_node_rebuilds_transaction_indexes_that_its_data_directory_lacks(
    node: NodeProcess, lost: tuple[str, ...]
) -> None:
    """Earlier releases left them out, with all indexes where the log was small. They had no mark in the directory."""
    directory = make_topic(node, "t", {"index.interval.bytes": "0"})
    write(node, "t", (b"A1", False), (b"ok", True), (b"A2", False))

    def remove() -> None:
        found = [path for pattern in lost for path in directory.glob(pattern)]
        assert found
        for path in (*found, directory.parent / "transaction-indexes-whole"):
            path.unlink()

    restart(node, remove)
    assert read(node, "t") == [b"ok"]
    assert node.log_path.read_text(encoding="utf-8").count("read back 2 aborted transactions") == 1
    restart(node)
    assert read(node, "t") == [b"ok"]
    assert node.log_path.read_text(encoding="utf-8").count("read back 2 aborted transactions") == 1
