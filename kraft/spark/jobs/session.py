"""A Spark session for a job: with little logging, this process's Python, and `format("kraft")` registered."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import kraft.spark
from kraft.common.errors import KraftError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkMissing(KraftError):
    """Raised when pyspark or Java is not installed. The message says what to do."""


@contextmanager
def spark_session(master: str, settings: dict[str, str]) -> Iterator[SparkSession]:
    """Create a Spark session, and stop it at the end. Raises SparkMissing."""
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as problem:
        raise SparkMissing("pyspark is not installed: pip install 'kraft-node[spark]'") from problem
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("kraft spark")
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    for name, value in {**quiet, **settings}.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as problem:
        raise SparkMissing(f"Spark did not start (it needs Java 17 or newer): {problem}") from problem
    try:
        session.sparkContext.setLogLevel("OFF")
        kraft.spark.register(session)
        yield session
    finally:
        session.stop()
