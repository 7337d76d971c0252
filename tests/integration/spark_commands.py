"""`kraft spark` as a test runs it: in this process, in a session that is there already, because starting one costs
more than a job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kraft.cli.admin.app import main
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft, Outcome


def kraft_in(
    cluster: Cluster,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    home: Path,
) -> Kraft:
    """The command, whose files are in `home` and whose default cluster is `cluster`."""

    @contextlib.contextmanager
    def lent(master: str, settings: dict[str, str]) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("kraft.spark.jobs.session.spark_session", lent)
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", cluster.bootstrap)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state-home"))
    monkeypatch.chdir(home)

    def run(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = main(["spark", *arguments])
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return run
