"""A Spark session for tests: local, two cores, with Spark's own Kafka connector and kraft's, so that both can read one
topic in one query."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

from pyspark.sql import SparkSession

import kraft.spark
from jepsen.java.jars import jars

ROOT = Path(__file__).parents[2]


def start_session(
    directory: Path, master: str = "local[2]", settings: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    """Start the JVM, or a new session in the existing JVM. Stop it with `session.stop()`.

    Only the JVM inherits these variables of the environment. Other programs that a test starts must not find this
    project in PYTHONPATH."""
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "kraft/spark/autoload"))),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with patch.dict(os.environ, environment):
        return _session(directory, master, settings)


def _session(directory: Path, master: str, settings: Mapping[str, str]) -> SparkSession:
    builder = (
        SparkSession.builder.master(master)
        .config("spark.jars", ",".join(sorted(map(str, jars("spark_connector").glob("*.jar")))))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={directory}")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    kraft.spark.register(session)
    return session
