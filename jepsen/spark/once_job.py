"""A driver that copies a topic by one query: `python -m jepsen.spark.once_job SPEC.json`. It reads to the end and
exits. If it is killed and restarted, it continues.

In each run, the first attempt at one task pauses after half of its rows, until Spark runs a second copy of the task.
Each attempt yields its rows in another order.
"""

from __future__ import annotations

import functools
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from jepsen.spark.spark_sessions import ROOT, start_session

QUERY = "copy"
SECONDS_MAX = 300
LINGER_SECONDS = 20.0
LINGERING_BATCH = "1"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
}


def lingering(batches: Iterator[pa.RecordBatch], place: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows, shuffled. Each attempt creates files in the directory `place` that record its start and end."""
    context = TaskContext.get()
    assert context is not None
    batch, task = context.getLocalProperty("streaming.sql.batchId"), context.partitionId()
    lingers = batch == LINGERING_BATCH and task == 0 and context.attemptNumber() == 0
    name = f"{batch}-{task}-{context.attemptNumber()}-{os.getpid()}"
    (Path(place) / f"{name}.began").touch()
    for number, each in enumerate(batches):
        if lingers and number == 1:
            time.sleep(LINGER_SECONDS)
        order = random.SystemRandom().sample(range(each.num_rows), each.num_rows)
        yield each.take(pa.array(order))
    (Path(place) / f"{name}.ended").touch()


def start(session: SparkSession, spec: dict[str, Any]) -> None:
    """Run the query to the end of the topic. Raises the query's error, or TimeoutError."""
    bootstrap = spec["bootstrap"]
    reader = session.readStream.format("kraft").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.options(
        subscribe=spec["source"],
        startingOffsets="earliest",
        maxOffsetsPerTrigger=spec["batch"],
        minPartitions=spec["tasks"],
    ).load()
    frame = frame.select("key", "value", "timestamp")
    attempts = Path(spec["directory"]) / "attempts"
    attempts.mkdir(exist_ok=True)
    frame = frame.mapInArrow(functools.partial(lingering, place=str(attempts)), frame.schema)
    options = {"kafka.bootstrap.servers": bootstrap, "keepTimestamp": "true"}
    if "column" in spec["ways"]:
        frame = frame.selectExpr("*", f"'{spec['target']}' AS topic")
    else:
        options["topic"] = spec["target"]
    writer = frame.writeStream.queryName(QUERY).trigger(availableNow=True)
    if "session" not in spec["ways"]:
        writer = writer.option("checkpointLocation", str(Path(spec["directory"]) / "checkpoints" / QUERY))
    if "foreach" in spec["ways"]:

        def write(rows: DataFrame, _: int) -> None:
            rows.write.format("kraft").options(**options, exactlyOnce="true").mode("append").save()

        query = writer.foreachBatch(write).start()
    else:
        query = writer.format("kraft").options(**options).start()
    if not query.awaitTermination(SECONDS_MAX):
        raise TimeoutError(f"the query did not end within {SECONDS_MAX} s")


def main(path: str) -> None:
    spec = json.loads(Path(path).read_text())
    place = Path(spec["directory"])
    settings = {**SPECULATION, "spark.executorEnv.PYTHONPATH": f"{ROOT}:{ROOT}/kraft/spark/autoload"}
    settings |= {"spark.executor.memory": "1g", "spark.sql.execution.arrow.maxRecordsPerBatch": str(spec["arrow"])}
    if "session" in spec["ways"]:
        settings["spark.sql.streaming.checkpointLocation"] = str(place / "checkpoints")
    session = start_session(place, master=spec["master"], settings=settings)
    start(session, spec)
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
