"""Rows of a task become parcels: placed, packed, and staged where there are many."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.protocol.records.record_batch import RecordBatch
from kraft.spark.client.wire import WireCluster, WireError
from kraft.spark.errors import SourceError
from kraft.spark.sink import exactly_once_writer as once_writer
from kraft.spark.sink import row_packer
from kraft.spark.sink.exactly_once_writer import OnceWriter
from kraft.spark.sink.staged_batch import Place, StagedBatch
from tests.unit.spark.fake_cluster import FakeCluster
from tests.unit.spark.sink_rows import incoming_rows


class MemoryStaging:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def put(self, task: int, parcels: list[bytes]) -> list[Place]:
        start = len(self.kept)
        self.kept += parcels
        return [Place(task, start + index) for index in range(len(parcels))]


def rows(topic: str | None, *values: bytes) -> list[tuple[Any, ...]]:
    return [(topic, None, value, None, None, None) for value in values]


def attempt(staging: MemoryStaging | None = None) -> OnceWriter:
    return OnceWriter(WireCluster("h:1"), 3, 0, 0, staging or MemoryStaging(), lambda: None)  # type: ignore[arg-type]


def values(parcel: StagedBatch, staging: MemoryStaging | None = None) -> list[bytes | None]:
    data = parcel.data
    if data is None:
        assert staging is not None
        assert parcel.place is not None
        data = staging.kept[parcel.place.offset]
    return [record.value for record in RecordBatch(data).records()]


def test_few_rows_are_sent_to_the_driver_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch, a=1, b=1)
    staging = MemoryStaging()
    writer = attempt(staging)
    writer.write(incoming_rows(rows("a", b"1", b"2") + rows("b", b"3")))
    found = writer.finish()
    assert [(each.topic, each.partition, each.rows, values(each)) for each in found] == [
        ("a", 0, 2, [b"1", b"2"]),
        ("b", 0, 1, [b"3"]),
    ]
    assert staging.kept == []


def test_many_rows_are_staged_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch, a=1)
    staging, sent = MemoryStaging(), [b"%d" % number + b"x" * (200 << 10) for number in range(40)]
    writer = attempt(staging)
    for value in sent:
        writer.write(incoming_rows(rows("a", value)))
    found = writer.finish()
    assert [value for each in found for value in values(each, staging)] == sent
    assert sum(len(each.data or b"") for each in found) < once_writer.STAGE_BYTES
    assert len(staging.kept) > 5


def test_rows_of_many_partitions_are_packed_before_the_buffer_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch, a=100)
    monkeypatch.setattr(row_packer, "PENDING_BYTES_MAX", 1000)
    writer = attempt()
    writer.write(incoming_rows([("a", None, b"v" * 100, number % 100, None, None) for number in range(50)]))
    assert writer.packer.pending_bytes < 1000
    assert sum(each.rows for each in writer.finish()) == 50


def test_a_row_without_a_topic_or_with_an_unknown_partition_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch, a=2)
    with pytest.raises(SourceError, match="KAFKA_NULL_TOPIC_IN_DATA"):
        attempt().write(incoming_rows(rows(None, b"1")))
    for wrong in (2, -1):
        with pytest.raises(ValueError, match=r"not in the range \[0\.\.\.2\)"):
            attempt().write(incoming_rows([("a", None, b"1", wrong, None, None)]))


def test_a_missing_topic_is_waited_for_briefly_and_then_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch)
    with pytest.raises(WireError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        attempt().write(incoming_rows(rows("a", b"1")))


def test_a_missing_topic_is_created_by_brokers_with_auto_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch).makes_topics = True
    writer = attempt()
    writer.write(incoming_rows(rows("a", b"1")))
    assert [each.rows for each in writer.finish()] == [1]
