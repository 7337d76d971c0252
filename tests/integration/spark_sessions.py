"""A Spark session for tests: local, two cores, with Spark's own Kafka connector beside ours, so that both can read one topic in one query."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import kraft.spark
from tests.java.jars import jars

ROOT = Path(__file__).parents[2]


def start_session(directory: Path, master: str = "local[2]") -> SparkSession:
    """Start the JVM; stop it with `session.stop()`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master(master)
        .config("spark.jars", ",".join(sorted(map(str, jars("spark_connector").glob("*.jar")))))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={directory}")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    kraft.spark.register(session)
    return session
