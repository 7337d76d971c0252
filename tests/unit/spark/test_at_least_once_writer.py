"""Rows of a task are sent at least once, without a transaction."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.record_batch import batches
from kraft.spark.client.wire import WireCluster, WireError
from kraft.spark.sink import at_least_once_writer as least_writer
from kraft.spark.sink import batch_sender
from kraft.spark.sink.at_least_once_writer import LeastWriter, SenderPool
from tests.unit.spark.fake_cluster import FakeCluster
from tests.unit.spark.sink_rows import incoming_rows


@pytest.fixture(autouse=True)
def a_pool_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_writer, "POOL", SenderPool())


def rows(*values: bytes) -> Any:
    return incoming_rows([("a", None, value, 0, None, None) for value in values])


def write(wires: WireCluster, *values: bytes) -> None:
    writer = LeastWriter(wires, 0, 0)
    writer.write(rows(*values))
    writer.finish()


def test_tasks_of_one_worker_share_a_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, wires = FakeCluster(monkeypatch, a=1), WireCluster("h:1")
    write(wires, b"1", b"2")
    write(wires, b"3")
    assert cluster.topics["a"][0].values() == [b"1", b"2", b"3"]
    assert cluster.topics["a"][0].state == {101: (0, 2)}
    assert not any(each.is_transactional for chunk in cluster.topics["a"][0].log for each in batches(chunk))


def test_a_task_without_rows_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    write(WireCluster("h:1"))
    assert cluster.produced == {}


def test_rows_are_sent_before_the_buffer_limit_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    writer = LeastWriter(WireCluster("h:1"), 0, 0)
    for number in range(10):
        writer.write(rows(b"%d" % number + b"x" * (500 << 10)))
        assert writer.size < least_writer.SEND_BYTES
    assert cluster.produced["a"]
    writer.finish()
    assert [value[:1] for value in cluster.topics["a"][0].values() if value] == [b"%d" % each for each in range(10)]


def test_a_broken_connection_duplicates_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, wires = FakeCluster(monkeypatch, a=1), WireCluster("h:1")
    write(wires, b"1")
    cluster.break_connections()
    write(wires, b"2")
    assert cluster.topics["a"][0].values() == [b"1", b"2"]


@pytest.mark.parametrize("code", sorted(batch_sender.FORGOTTEN))
def test_a_new_producer_id_is_used_where_brokers_do_not_know_the_old_one(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    cluster, wires = FakeCluster(monkeypatch, a=1), WireCluster("h:1")
    write(wires, b"1")
    cluster.refuse["a", 2] = code
    write(wires, b"2")
    assert cluster.topics["a"][0].values() == [b"1", b"2"]
    assert cluster.topics["a"][0].state == {101: (0, 0), 102: (0, 0)}


def test_a_permanent_error_is_raised_and_the_next_task_starts_a_new_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, wires = FakeCluster(monkeypatch, a=1), WireCluster("h:1")
    cluster.refuse["a", 1] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(WireError, match=r"a-0 .*TOPIC_AUTHORIZATION_FAILED"):
        write(wires, b"1")
    least_writer.POOL.discard(wires)
    write(wires, b"2")
    assert cluster.topics["a"][0].state == {102: (0, 0)}


def test_a_row_that_is_too_large_is_reported_with_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    cluster.message_bytes_max = 1000
    with pytest.raises(WireError, match=r"a row for a-0 has \d+ bytes.*max\.message\.bytes"):
        write(WireCluster("h:1"), b"x" * 2000)


def test_full_batches_are_sent_while_the_next_ones_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    monkeypatch.setattr(least_writer, "SEND_BYTES", 1)
    writer = LeastWriter(WireCluster("h:1"), 0, 0)
    writer.write(rows(b"1"))
    writer.packer.pack_all()
    assert cluster.topics["a"][0].values() == [b"1"]
    assert list(writer.sender.queues) == [("a", 0)]  # Nobody has waited for the answer yet.
    writer.finish()
    assert not writer.sender.queues
