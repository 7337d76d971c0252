"""Which interpreter Spark's Python workers are given by `kraft.spark.register`."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import kraft.spark

pytest.importorskip("pyspark")


def session(**context: str) -> Any:
    registered: list[object] = []
    return SimpleNamespace(
        _sc=SimpleNamespace(pythonExec="python3", **context),
        dataSource=SimpleNamespace(register=registered.append),
        registered=registered,
    )


@pytest.mark.parametrize(
    ("master", "named", "interpreter"),
    [
        ("local[2]", None, sys.executable),
        ("local", None, sys.executable),
        ("local[2]", "python3", "python3"),  # Somebody has chosen.
        ("spark://master:7077", None, "python3"),  # This path may mean nothing there.
    ],
)
def test_local_workers_get_the_interpreter_of_the_program(
    monkeypatch: pytest.MonkeyPatch, master: str, named: str | None, interpreter: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if named is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", named)
    spark = session(master=master)
    kraft.spark.register(spark)
    assert spark._sc.pythonExec == interpreter
    assert [source.__name__ for source in spark.registered] == ["KraftDataSource"]


def test_a_session_of_spark_connect_has_no_workers_here() -> None:
    spark = session(master="local")
    del spark._sc
    kraft.spark.register(spark)
    assert len(spark.registered) == 1
