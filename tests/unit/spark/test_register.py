"""What `kraft.spark.register` sees to: the interpreter of Spark's Python workers, and that filters are handed over."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import kraft.spark

pytest.importorskip("pyspark")


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def session(**context: str) -> Any:
    registered: list[object] = []
    settings: dict[str, str] = {}
    return SimpleNamespace(
        conf=SimpleNamespace(getAll=settings, set=settings.__setitem__),
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
def test_local_workers_use_the_interpreter_of_the_driver(
    monkeypatch: pytest.MonkeyPatch, master: str, named: str | None, interpreter: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if named is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", named)
    spark = session(master=master)
    kraft.spark.register(spark)
    assert spark._sc.pythonExec == interpreter
    assert [source.__name__ for source in spark.registered] == ["KraftDataSource"]


def test_a_spark_connect_session_has_no_local_workers() -> None:
    spark = session(master="local")
    del spark._sc
    kraft.spark.register(spark)
    assert len(spark.registered) == 1


@pytest.mark.parametrize(("said", "found"), [(None, "true"), ("false", "false")])
def test_filters_are_pushed_down_unless_the_session_disables_it(said: str | None, found: str) -> None:
    spark = session(master="local")
    if said is not None:
        spark.conf.set(PUSHDOWN, said)
    kraft.spark.register(spark)
    assert spark.conf.getAll[PUSHDOWN] == found
