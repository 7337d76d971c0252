"""What the garbage collector of a Python worker is spared."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kraft.spark.client.worker_heap import freeze_imports
from kraft.spark.sink import writer
from kraft.spark.sink.writer import KafkaBatchWriter, KafkaStreamWriter
from tests.unit.spark.sink_rows import sink


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    freeze_imports.cache_clear()
    yield
    freeze_imports.cache_clear()
    gc.unfreeze()


def test_objects_present_after_the_first_task_are_frozen_and_later_ones_are_not() -> None:
    freeze_imports()
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    later = [[number] for number in range(1000)]
    freeze_imports()
    assert gc.get_freeze_count() <= frozen
    assert any(each is later for each in gc.get_objects())


def test_processes_that_create_or_commit_a_sink_are_frozen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "require_writable", lambda _: None)
    for kind in (KafkaBatchWriter, KafkaStreamWriter):
        made = kind(sink("t"))
        assert gc.get_freeze_count() > 10_000
        gc.unfreeze()
        freeze_imports.cache_clear()
        if isinstance(made, KafkaStreamWriter):
            made.commit([], 0)
        else:
            made.commit([])
        assert gc.get_freeze_count() > 10_000
        gc.unfreeze()
        freeze_imports.cache_clear()
