"""A Spark job over the topic through kraft's data source, which needs no jars."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def session() -> Any:
    """A local Spark session with `format("kraft")`. Its workers run this very Python and find this very kraft."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    import kraft.spark

    builder: Any = SparkSession.builder
    spark = (
        builder.master("local[2]")
        .appName("kraft demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    kraft.spark.register(spark)
    return spark


def mean_delays(spark: Any, bootstrap: str, topic: str) -> dict[str, tuple[int, float]]:
    """carrier -> (flights with a known arrival delay, their mean delay in minutes), by Spark."""
    from pyspark.sql import functions as f

    rows = spark.read.format("kraft").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    flight = rows.select(f.from_json(f.col("value").cast("string"), "carrier string, arr_delay double").alias("flight")).select("flight.*")
    found = flight.groupBy("carrier").agg(f.count("arr_delay").alias("count"), f.avg("arr_delay").alias("mean")).collect()
    return {row["carrier"]: (row["count"], row["mean"]) for row in found}
