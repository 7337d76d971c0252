"""What the sink keeps in the checkpoint, and what it finds again when the leaders have forgotten who wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kraft.spark.batch_begun import DIRECTORY, BatchBegun, begun
from kraft.spark.batch_identity import BatchIdentity
from kraft.spark.errors import SourceError
from kraft.spark.once_writer import OnceWriter
from kraft.spark.wire import WireCluster
from tests.unit.spark.fake_cluster import FakeCluster

IDENTITY = BatchIdentity("query", 3, 0)


def rows(*numbers: int) -> list[tuple[Any, ...]]:
    return [("a", None, b"%d" % number, 0, None, None) for number in numbers]


def attempt(ends: Mapping[int, int] | None, identity: BatchIdentity = IDENTITY) -> OnceWriter:
    return OnceWriter(WireCluster("h:1"), identity, 0, ends)


@pytest.mark.parametrize("done", [1, 60, 100])
def test_rows_of_a_producer_that_its_leader_has_forgotten_are_not_written_again(
    monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    partition = cluster.topics["a"][0]
    other = attempt(None, BatchIdentity("another", 3, 0))
    other.write(rows(7, 8, 9))
    other.finish()
    ends = {0: partition.end}
    first = attempt(ends)
    first.write(rows(*range(done)))
    first.finish()
    partition.forget_producers()
    again = attempt(ends)
    again.write(rows(*range(100)))
    again.finish()
    assert [int(value or b"") for value in partition.values()] == [7, 8, 9, *range(100)]


def test_other_rows_than_those_of_a_forgotten_attempt_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    first = attempt({0: 0})
    first.write(rows(1, 2, 3))
    first.finish()
    cluster.topics["a"][0].forget_producers()
    with pytest.raises(SourceError, match="NOT_REPEATABLE"):
        attempt({0: 0}).write(rows(3, 2, 1))


def test_a_partition_that_came_later_is_looked_through_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    for _ in range(2):
        writer = attempt({})
        writer.write(rows(1, 2))
        writer.finish()
        cluster.topics["a"][0].forget_producers()
    assert cluster.topics["a"][0].values() == [b"1", b"2"]


# -- the checkpoint


def plan(place: Path, batch: int) -> None:
    (place / "offsets").mkdir(exist_ok=True)
    (place / "offsets" / str(batch)).write_text("v1")


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_the_first_ends_of_a_micro_batch_are_kept(tmp_path: Path, prefix: str) -> None:
    plan(tmp_path, 9), plan(tmp_path, 10)
    assert begun(f"{prefix}{tmp_path}", "a", "", lambda: {0: 5, 1: 7}) == BatchBegun(10, {0: 5, 1: 7}, is_new=True)
    assert begun(str(tmp_path), "a", "", lambda: {0: 8, 1: 8}) == BatchBegun(10, {0: 5, 1: 7}, is_new=False)
    assert begun(str(tmp_path), "a", "another", lambda: {0: 8}) == BatchBegun(10, {0: 8}, is_new=True)


def test_ends_that_another_driver_keeps_meanwhile_are_taken(tmp_path: Path) -> None:
    plan(tmp_path, 1)

    def ask() -> dict[int, int]:
        begun(str(tmp_path), "a", "", lambda: {0: 5})
        return {0: 9}

    assert begun(str(tmp_path), "a", "", ask) == BatchBegun(1, {0: 5}, is_new=False)


def test_batches_that_are_never_replayed_are_forgotten(tmp_path: Path) -> None:
    for batch in range(5):
        plan(tmp_path, batch)
        begun(str(tmp_path), "a", "", lambda: {0: 5})
    assert sorted(each.name for each in (tmp_path / DIRECTORY).iterdir()) == ["3--a.json", "4--a.json"]


def test_a_damaged_file_makes_the_sink_look_through_the_whole_topic(tmp_path: Path) -> None:
    plan(tmp_path, 4)
    (tmp_path / DIRECTORY).mkdir()
    (tmp_path / DIRECTORY / "4--a.json").write_text('{"0": ')
    assert begun(str(tmp_path), "a", "", lambda: {0: 5}) == BatchBegun(4, {}, is_new=False)


def test_a_checkpoint_out_of_reach_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert begun(str(tmp_path), "a", "", lambda: {0: 5}) is None
    assert begun("nowhere://x/y", "a", "", lambda: {0: 5}) is None
    assert caplog.text.count("may be written twice") == 2
