"""A Spark driver that runs queries one after another, each to the end of its topic: `python -m jepsen.spark.queries
SPEC.json`.

A request is a line of JSON on stdin, its response a line on stdout. The request `run` (`source`, `topic`, `query`,
`fail_on_data_loss`, and further `options` of the read) returns `failed`: the error's text, or null. The request `rows`
(`query`) returns the rows that have arrived so far; each batch has a Parquet directory. Warnings of a query are on
stderr, where Spark's workers and planners write them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from jepsen.spark.job import batch_files
from jepsen.spark.spark_sessions import start_session

SECONDS_MAX = 120


def run(session: SparkSession, bootstrap: str, place: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Run one query from its checkpoint to the end of the topic."""
    reader = (
        session.readStream.format(request["source"])
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", request["topic"])
    )
    reader = reader.option("startingOffsets", "earliest").option(
        "failOnDataLoss", str(request["fail_on_data_loss"]).lower()
    )
    reader = reader.options(**request["options"])
    frame: DataFrame = reader.load().selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
    home = place / request["query"]
    writer = frame.writeStream.foreachBatch(batch_files(home / "rows")).option(
        "checkpointLocation", str(home / "checkpoint")
    )
    query = writer.trigger(availableNow=True).start()
    try:
        ended, failed = query.awaitTermination(SECONDS_MAX), None
    except Exception as problem:  # noqa: BLE001 - whatever ends a query is the answer, for the judge to read.
        ended, failed = True, str(problem)
    query.stop()
    if not ended:
        failed = f"it did not end within {SECONDS_MAX} seconds"
    return {"failed": failed}


def rows(session: SparkSession, place: Path, query: str) -> list[list[Any]]:
    """Return (partition, offset, value) of all rows that have arrived."""
    home = place / query / "rows"
    return (
        [list(row) for row in session.read.parquet(str(home)).select("partition", "offset", "value").collect()]
        if home.exists()
        else []
    )


def main(path: str) -> None:
    spec = json.loads(Path(path).read_text())
    place = Path(spec["directory"])
    session = start_session(place, master="local[2]")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = (
            {"rows": rows(session, place, request["query"])}
            if request["what"] == "rows"
            else run(session, spec["bootstrap"], place, request)
        )
        print(json.dumps(answer), flush=True)
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
