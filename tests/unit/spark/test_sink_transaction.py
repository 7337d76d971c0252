"""The driver's transaction against a broker in memory that refuses, breaks and is elsewhere."""

from __future__ import annotations

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.compression import CODEC_NAMES
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.spark.client.wire import WireCluster, WireError
from kraft.spark.errors import SourceError
from kraft.spark.sink import batch_sender
from kraft.spark.sink.batch_encoder import Row
from kraft.spark.sink.batch_sender import Outgoing, rounds
from kraft.spark.sink.sink_transaction import SinkTransaction, missing_api
from kraft.spark.sink.staged_batch import crc_of, halves, packed, stamped
from tests.unit.spark.fake_cluster import FakeCluster


def batch(*values: bytes) -> bytes:
    return packed([Row(1000 + index, None, value, ()) for index, value in enumerate(values)], 0)


def begun(wires: WireCluster | None = None) -> SinkTransaction:
    transaction = SinkTransaction(wires or WireCluster("h:1"), "id", 1000)
    transaction.begin()
    return transaction


def test_rows_are_written_in_order_by_one_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=2, b=1)
    sent = [Outgoing("a", 0, batch(b"1", b"2")), Outgoing("b", 0, batch(b"3")), Outgoing("a", 0, batch(b"4"))]
    transaction = begun()
    transaction.add(each.place for each in sent)
    assert transaction.write(sent) == {("a", 0): 2, ("b", 0): 0}
    transaction.end(is_commit=True)
    assert cluster.topics["a"][0].values() == [b"1", b"2", b"4"]
    assert cluster.topics["a"][0].state == {7: (1, 2)}
    assert all(each.is_transactional for chunk in cluster.topics["a"][0].log for each in batches(chunk))
    assert cluster.ended == [True]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_retriable_errors_are_retried(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    cluster = FakeCluster(monkeypatch, a=1, b=1)
    cluster.refuse["a", 1] = code
    cluster.coordinator_codes[-3:] = [0, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS]
    begun().write([Outgoing("a", 0, batch(b"1")), Outgoing("b", 0, batch(b"2"))])
    assert [cluster.topics[name][0].values() for name in ("a", "b")] == [[b"1"], [b"2"]]


def test_a_broken_connection_is_reopened(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    transaction = begun()
    transaction.write([Outgoing("a", 0, batch(b"1"))])
    cluster.break_connections()
    transaction.write([Outgoing("a", 0, batch(b"2"))])
    cluster.break_connections()
    transaction.end(is_commit=True)
    assert cluster.topics["a"][0].values() == [b"1", b"2"]


@pytest.mark.parametrize("code", sorted(batch_sender.FENCED))
def test_a_fenced_transaction_is_reported(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    cluster.refuse["a", 1] = code
    transaction = begun()
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_FENCED"):
        transaction.write([Outgoing("a", 0, batch(b"1"))])
    cluster.coordinator_codes[-1:] = [code]
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_FENCED"):
        transaction.end(is_commit=True)


def test_a_permanent_error_is_raised_and_a_failed_abort_is_left_to_the_coordinator(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    cluster.refuse["a", 1] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    transaction = begun()
    with pytest.raises(WireError, match=r"a-0 .*TOPIC_AUTHORIZATION_FAILED"):
        transaction.write([Outgoing("a", 0, batch(b"1"))])
    cluster.coordinator_codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000
    transaction.abort()
    assert (
        "transaction id could not be aborted; its coordinator aborts it after the transaction timeout: EndTxn"
        in caplog.text
    )
    assert not any(cluster.ended)


def test_a_partition_that_never_responds_fails_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    cluster.refuse = {("a", number): ErrorCode.NOT_ENOUGH_REPLICAS for number in range(5000)}
    with pytest.raises(TimeoutError, match="accepted no batch within 120 s"):
        begun().write([Outgoing("a", 0, batch(b"1"))])


def test_only_refused_partitions_are_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    transaction = begun()
    cluster.coordinator_codes[-1:] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(WireError, match=r"AddPartitionsToTxn.*TOPIC_AUTHORIZATION_FAILED"):
        transaction.add([("a", 0)])


def test_a_topic_with_a_small_batch_limit_gets_small_batches_after_one_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    cluster.message_bytes_max = 5_000
    values = [b"%03d" % number * 30 for number in range(100)]
    transaction = begun()
    transaction.write([Outgoing("a", 0, batch(*values)), Outgoing("a", 0, batch(*values))])
    assert cluster.topics["a"][0].values() == values * 2
    assert max(len(chunk) for chunk in cluster.topics["a"][0].log) <= 5_000
    refused = cluster.produced["a"] - len(cluster.topics["a"][0].log)
    assert refused == 2, "of the first batch and of its halves"
    with pytest.raises(WireError, match=r"a row for a-0 has \d+ bytes.*max\.message\.bytes.*MESSAGE_TOO_LARGE"):
        transaction.write([Outgoing("a", 0, batch(b"x" * 6_000))])


def test_a_cluster_without_transactions_is_detected_by_its_api_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch)
    assert missing_api(WireCluster("h:1")) is None
    monkeypatch.setattr("tests.unit.spark.memory_broker.SERVED", (0, 1, 2, 3, 18, 22))
    assert missing_api(WireCluster("h:1")) == "AddPartitionsToTxn"


def test_rows_are_written_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sender, "ROUND_BYTES", 5)
    sent = [Outgoing("a", 0, b"xyz") for _ in range(5)]
    assert [len(chunk) for chunk in rounds(sent)] == [2, 2, 1]


@pytest.mark.parametrize("codec", range(len(CODEC_NAMES)))
def test_a_batch_keeps_its_rows_when_stamped_and_split(codec: int) -> None:
    rows = [Row(1000 + n, None if n == 1 else b"k", b"%d" % n, (("h", None),)) for n in range(5)]
    data = packed(rows, codec)
    found = RecordBatch(stamped(data, 7, 3, 9))
    found.verify_crc()
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.codec) == (7, 3, 9, codec)
    assert found.is_transactional
    assert [(each.timestamp, each.key, each.value, each.headers) for each in found.records()] == rows
    split = halves(data)
    assert [(r.timestamp, r.key, r.value, r.headers) for part in split for r in RecordBatch(part).records()] == rows
    assert [RecordBatch(part).count for part in split] == [2, 3]
    assert crc_of(data) == RecordBatch(data).computed_crc()
