"""What a task reads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kraft.spark.source.ranges import OffsetRange

batch_reader = pytest.importorskip("kraft.spark.source.batch_reader")


def test_a_task_reads_each_of_its_ranges_and_then_freezes_its_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(
        batch_reader,
        "fetcher",
        lambda options, config, each: iter([f"first of {each.partition}", f"second of {each.partition}"]),
    )
    monkeypatch.setattr(batch_reader, "freeze_imports", lambda: frozen.append(True))
    rows = list(
        batch_reader.fetch(SimpleNamespace(shape=None), {}, (OffsetRange("t", 0, 0, 2), OffsetRange("t", 3, 5, 7)))
    )
    assert rows == ["first of 0", "second of 0", "first of 3", "second of 3"]
    assert frozen == [True]


def test_the_placeholder_partition_of_spark_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "freeze_imports", lambda: None)
    assert list(batch_reader.fetch(None, {}, None)) == []
