"""A Spark job over the topic through kraft's data source, which needs no jars."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Send the stderr of processes started in the block to `path`: a JVM prints irrelevant warnings at its start."""
    kept = os.dup(2)
    with open(path, "ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def session(log: Path) -> Any:
    """A local Spark session with `format("kraft")`; the JVM's output goes to `log`. Its workers use the same Python and
    the same kraft."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")])
    )
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    import kraft.spark

    builder: Any = SparkSession.builder
    builder = (
        builder.master("local[2]")
        .appName("kraft demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    with stderr_to(log):
        spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    kraft.spark.register(spark)
    return spark


def mean_delays(spark: Any, bootstrap: str, topic: str) -> dict[str, tuple[int, float]]:
    """carrier -> (flights with a known arrival delay, their mean delay in minutes), by Spark."""
    from pyspark.sql import functions as f

    rows = spark.read.format("kraft").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    flight = rows.select(
        f.from_json(f.col("value").cast("string"), "carrier string, arr_delay double").alias("flight")
    ).select("flight.*")
    found = (
        flight.groupBy("carrier").agg(f.count("arr_delay").alias("count"), f.avg("arr_delay").alias("mean")).collect()
    )
    return {row["carrier"]: (row["count"], row["mean"]) for row in found}


def reads(spark: Any) -> bool:
    """Whether a task of a job runs now."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)
