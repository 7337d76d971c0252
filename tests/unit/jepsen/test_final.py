"""What is asked of a healed cluster; comparing replicas' files: whatever one of them lacks shows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from jepsen.checker.operations import Committed, Partition, Stuck, Writers
from jepsen.history import Recorder, RunFacts, RunHistory, load
from jepsen.servers import open_servers
from jepsen.workloads.final import METADATA, contents, read_committed, tell_writers
from kraft.protocol.records.builder import Record, build_batch

EVENTS: Partition = ("events", 0)


def batch(base: int) -> bytes:
    return base.to_bytes(8, "big") + build_batch([Record(0, 0, b"k", b"v%d" % base, ())])[8:]


def of_producer(base: int, producer_id: int, epoch: int) -> bytes:
    head = bytearray(batch(base))
    head[43:53] = producer_id.to_bytes(8, "big") + epoch.to_bytes(2, "big")
    return bytes(head)


def held(
    tmp_path: Path, *logs: list[bytes], place: Partition = EVENTS, store: Any = None
) -> list[tuple[int, int, str]]:
    """(start, end, digest) of each replica."""
    nodes: dict[int, Any] = {}
    for number, batches in enumerate(logs):
        directory = tmp_path / str(number) / f"{place[0]}-{place[1]}"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(b"".join(batches))
        nodes[number] = SimpleNamespace(data=tmp_path / str(number))
    cluster: Any = SimpleNamespace(nodes=nodes, store=store)
    return [each[1:] for each in contents(cluster, place, sorted(nodes))]


def test_equal_replicas_are_equal(tmp_path: Path) -> None:
    whole = [batch(0), batch(1)]
    first, second = held(tmp_path, whole, whole)
    assert first == second
    assert first[:2] == (0, 2)


def test_a_replica_without_the_start_of_its_log_differs(tmp_path: Path) -> None:
    whole, beheaded = held(tmp_path, [batch(0), batch(1)], [batch(1)])
    assert whole != beheaded
    assert (whole[0], beheaded[0]) == (0, 1)


def test_a_replica_without_the_end_of_its_log_differs(tmp_path: Path) -> None:
    whole, short = held(tmp_path, [batch(0), batch(1)], [batch(0)])
    assert (whole[1], short[1]) == (2, 1)


def test_an_empty_replica_differs_and_is_reported_as_empty(tmp_path: Path) -> None:
    assert held(tmp_path, [batch(0)], []) == [(0, 1, "something"), (0, 0, "nothing")]


def test_a_replica_with_a_damaged_batch_differs(tmp_path: Path) -> None:
    damaged = bytearray(batch(1))
    damaged[-1] ^= 1
    first, second = held(tmp_path, [batch(0), batch(1)], [batch(0), bytes(damaged)])
    assert first[:2] == second[:2]
    assert first != second


def test_metadata_logs_are_compared_over_their_common_offsets(tmp_path: Path) -> None:
    first, second = held(tmp_path, [batch(0), batch(1)], [batch(1), batch(2)], place=METADATA)
    assert first == second
    assert first[:2] == (1, 2)


def test_the_producer_of_each_batch_is_recorded(tmp_path: Path) -> None:
    directory = tmp_path / "events-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(of_producer(0, 7, 0) + of_producer(1, 1 << 40, 3))
    cluster: Any = SimpleNamespace(nodes={1: SimpleNamespace(data=tmp_path)}, store=None)
    recorder = FakeRecorder()
    tell_writers(cluster, recorder, EVENTS, 1)  # type: ignore[arg-type]
    assert [told.batches for told in recorder.told] == [[(0, 1, 7, 0), (1, 2, 1 << 40, 3)]]


def test_replicas_of_a_tiered_log_are_compared_over_their_common_local_offsets(tmp_path: Path) -> None:
    first, second = held(tmp_path, [batch(0), batch(1)], [batch(1)], store=Store())
    assert first == second
    assert first[:2] == (1, 2)


def test_a_replica_of_a_tiered_log_without_its_end_differs(tmp_path: Path) -> None:
    whole, short = held(tmp_path, [batch(1), batch(2)], [batch(1)], store=Store())
    assert (whole[1], short[1]) == (3, 2)


def test_the_producer_of_each_batch_in_the_object_store_is_recorded(tmp_path: Path) -> None:
    directory = tmp_path / "events-0"
    directory.mkdir()
    (directory / f"{1:020}.log").write_bytes(of_producer(1, 8, 0))
    cluster: Any = SimpleNamespace(nodes={1: SimpleNamespace(data=tmp_path)}, store=Store())
    recorder = FakeRecorder()
    tell_writers(cluster, recorder, EVENTS, 1)  # type: ignore[arg-type]
    assert [told.batches for told in recorder.told] == [[(0, 1, 7, 0), (1, 2, 8, 0)]]


class Store:
    """It has the first two batches, a copy of the first, what is not of the partition, and no more a copy that was
    there when it told its names."""

    CONTENTS: ClassVar[dict[str, bytes]] = {
        "log/events-id/0/0-a.log": of_producer(0, 7, 0) + of_producer(1, 8, 0),
        "log/events-id/0/0-a.index": b"no batches",
        "log/events-id/0/0-b.log": of_producer(0, 7, 0),
        "log/events-id/1/0-a.log": of_producer(0, 9, 0),
        "log/more-id/0/0-a.log": of_producer(0, 9, 0),
    }

    def names(self) -> list[str]:
        return [*self.CONTENTS, "log/events-id/0/0-given-up.log"]

    def content(self, name: str) -> bytes | None:
        return self.CONTENTS.get(name)


class FakeRecorder:
    def __init__(self) -> None:
        self.told: list[Writers] = []

    def now(self) -> float:
        return 0.0

    def done(self, operation: Writers) -> None:
        self.told.append(operation)


class Coordinator:
    """A librdkafka consumer of a group whose coordinator does not answer at first, and then, at first, for one
    partition only."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[Any]:
        self.refusals -= 1
        if self.refusals > 0:
            raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))
        late = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT) if self.refusals == 0 else None
        return [
            SimpleNamespace(topic="events", partition=partition, offset=7, error=late if partition else None)
            for partition in range(len(partitions))
        ]

    def close(self) -> None:
        pass


def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: int, seconds: float) -> RunHistory:
    monkeypatch.setattr("jepsen.workloads.final.Consumer", lambda _: Coordinator(refusals))
    monkeypatch.setattr("jepsen.workloads.final.PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("jepsen.workloads.final.COMMITTED_SECONDS_MAX", seconds)
    recorder = Recorder(
        tmp_path / "history",
        RunFacts(target="kraft", workload="queue", plan="power-all", seed=1, seconds=1, flush=True, unclean=False),
    )
    read_committed(recorder, open_servers("nowhere:1"), "readers", [EVENTS, ("events", 1)])
    recorder.close()
    return load(tmp_path / "history")


def test_a_coordinator_is_polled_at_the_end_until_it_reports_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = asked(tmp_path, monkeypatch, 2, 60.0).operations
    assert {(each.partition, each.offset) for each in operations.of(Committed)} == {(0, 7), (1, 7)}
    assert not operations.of(Stuck)


def test_a_coordinator_that_never_reports_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = asked(tmp_path, monkeypatch, 2, -1.0).operations
    assert [each.what for each in operations.of(Stuck)] == [
        "it is not told what readers has committed, -1 s after healing"
    ]
