"""Which errors of a Spark worker are told without their traceback."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kraft.spark.errors import LookUpFailed
from kraft.spark.option_values import flag
from kraft.spark.worker_traceback import HIDE, KEEP, hide_traceback


def open_nothing() -> None:
    Path("/nowhere/at/all").read_bytes()


def look_up() -> None:
    raise LookUpFailed("no broker can be reached", None)


def mistake() -> None:
    {}["missing"]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon", parent=""), raising=False
    )
    monkeypatch.setenv(HIDE, "")
    monkeypatch.delenv(KEEP, raising=False)


def is_hidden(raising: Callable[[], object]) -> bool:
    with pytest.raises(Exception), hide_traceback():  # noqa: B017
        raising()
    return os.environ[HIDE] == "1"


@pytest.mark.parametrize(
    ("raising", "hidden"),
    [
        (look_up, True),
        (lambda: flag({"a": "maybe"}, "a", False), True),
        (open_nothing, True),
        (mistake, False),
        (lambda: json.loads("{"), False),
        (lambda: os.close(10**6), False),
    ],
)
def test_only_deliberately_raised_errors_are_shown_without_a_traceback(
    worker: None, raising: Callable[[], object], hidden: bool
) -> None:
    assert is_hidden(raising) == hidden


def test_an_option_keeps_the_traceback(worker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEEP, "1")
    assert not is_hidden(look_up)


def test_a_process_other_than_a_spark_worker_keeps_its_tracebacks(
    worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    assert not is_hidden(look_up)
