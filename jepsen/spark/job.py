"""The Spark driver of the harness: `python -m jepsen.spark.job SPEC.json`. It runs until it is killed, or until the
file `drain` asks it to read to the end.

It reports events in `events.jsonl`: completed batches, queries that failed and were restarted, batch reads. Once
`drain` exists, it runs each query to the end of the topic, writes the content of each sink to `results/`, and exits. It
exits with STUCK if Spark cannot start Python workers any more.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from jepsen.spark.spark_sessions import start_session

RESTARTS_MAX = 200
STARTS_MAX = 20
START_SECONDS_MAX = 30
DRAIN_SECONDS_MAX = 240
SINKS = ("parquet", "foreach", "log")
STUCK = 75
FACTORY_FAILURES_MAX = 20
FACTORY_FAILURES = ("ProcessBuilder$NullOutputStream", "Stream closed", "Authentication failed")
"""Errors that Spark raises while it has not noticed that its Python daemon is dead. Until then no query of this driver
can run."""


class FactoryStuck(RuntimeError):
    """Raised when Spark's factory of Python workers has failed many times without success: only a new driver helps."""


class Job:
    def __init__(self, spec: dict[str, Any], session: SparkSession) -> None:
        self.session = session
        self.bootstrap = spec["bootstrap"]
        self.topic = spec["topic"]
        self.sources = spec["sources"]
        self.place = Path(spec["directory"])
        self.batches: dict[str, int] = {}
        self.factory_failures = 0

    def say(self, **event: Any) -> None:
        with open(self.place / "events.jsonl", "a", encoding="utf-8") as events:
            events.write(json.dumps({"time": time.time(), **event}) + "\n")

    def failed(self, query: str, why: str) -> None:
        """Report a failed query. Raises FactoryStuck."""
        self.say(kind="failed", query=query, why=why[:3000])
        if any(words in why for words in FACTORY_FAILURES):
            self.factory_failures += 1
        if self.factory_failures >= FACTORY_FAILURES_MAX:
            raise FactoryStuck(f"{self.factory_failures} failures of Spark's factory of Python workers: {why[:300]}")

    def python_worked(self, name: str) -> None:
        """Note that a query or batch read succeeded. The official connector needs no Python workers, so it proves
        nothing about them."""
        if name.startswith("kraft"):
            self.factory_failures = 0

    def start(self, source: str, sink: str, *, to_the_end: bool) -> StreamingQuery:
        reader = (
            self.session.readStream.format(source)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.topic)
        )
        frame = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "20000").load()
        values = frame.select("partition", "offset", frame.value.cast("string").alias("value"))
        name = f"{source}-{sink}"
        if sink == "parquet":
            writer = values.writeStream.format("parquet").option("path", str(self.place / name))
        elif sink == "foreach":
            writer = values.writeStream.foreachBatch(batch_files(self.place / name))
        else:
            rows = values.select(
                f.col("partition").cast("string").alias("key"),
                f.to_json(f.struct("partition", "offset", "value")).alias("value"),
            )
            writer = (
                rows.writeStream.format(source)
                .option("kafka.bootstrap.servers", self.bootstrap)
                .option("topic", f"{self.topic}-{source}")
            )
        writer = writer.queryName(name).option("checkpointLocation", str(self.place / "checkpoints" / name))
        return (writer.trigger(availableNow=True) if to_the_end else writer.trigger(processingTime="2 seconds")).start()

    def run(self) -> None:
        """Run all queries until `drain` exists and everything is read."""
        names = [(source, sink) for source in self.sources for sink in SINKS]
        queries = {name: self.started(*name) for name in names}
        restarts = 0
        while not (self.place / "drain").exists():
            for name, query in queries.items():
                self.told(query)
                if not query.isActive:
                    restarts += 1
                    assert restarts < RESTARTS_MAX, "queries fail again and again"
                    self.failed("-".join(name), str(query.exception()))
                    queries[name] = self.started(*name)
            for source in self.sources:
                self.batch_read(source)
            time.sleep(2.0)
        for query in queries.values():
            query.stop()
        for source, sink in names:
            self.drain(source, sink)
        self.results()
        self.say(kind="drained")

    def started(self, source: str, sink: str) -> StreamingQuery:
        """Start a query, and wait until its Python side runs or the query has failed. Queries are started one at a
        time, because Spark limits that start to ten seconds, and the machine may be busy."""
        query = self.start_again(source, sink, to_the_end=False)
        deadline = time.monotonic() + START_SECONDS_MAX
        while query.isActive and not query.recentProgress and time.monotonic() < deadline:
            time.sleep(0.2)
        return query

    def start_again(self, source: str, sink: str, *, to_the_end: bool) -> StreamingQuery:
        """Start the query; retry if the call fails. After Spark's Python daemon has died, the next calls fail before
        Spark starts another daemon."""
        for _ in range(STARTS_MAX):
            try:
                return self.start(source, sink, to_the_end=to_the_end)
            except (Py4JJavaError, PySparkException) as problem:
                self.failed(f"{source}-{sink}", str(problem))
                time.sleep(0.5)
        return self.start(source, sink, to_the_end=to_the_end)

    def told(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is not None and last.batchId > self.batches.get(last.name, -1) and last.numInputRows:
            self.batches[last.name] = last.batchId
            self.python_worked(last.name)
            self.say(kind="batch", query=last.name, batch=last.batchId, rows=last.numInputRows)

    def drain(self, source: str, sink: str) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while True:
            query = self.start_again(source, sink, to_the_end=True)
            with contextlib.suppress(Exception):  # The reason is reported below.
                query.awaitTermination(DRAIN_SECONDS_MAX)
            problem = query.exception()
            if problem is None and not query.isActive:
                return
            self.failed(f"{source}-{sink}", str(problem))
            query.stop()
            assert time.monotonic() < deadline, f"{source}-{sink} does not come to the end: {problem}"

    def batch_read(self, source: str) -> None:
        """Count all records by a batch read. Every error is reported; the harness decides which ones are permitted."""
        reader = (
            self.session.read.format(source)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.topic)
        )
        try:
            rows = (
                reader.load()
                .groupBy("partition")
                .agg(f.count("*").alias("n"), f.countDistinct("offset").alias("d"), f.max("offset").alias("m"))
                .collect()
            )
        except Exception as problem:  # noqa: BLE001
            self.failed(f"{source}-batch", str(problem))
            return
        self.python_worked(source)
        self.say(kind="read", source=source, counted={row.partition: (row.n, row.d, row.m) for row in rows})

    def results(self) -> None:
        """Write the content of the file sinks, as Spark reads it."""
        (self.place / "results").mkdir(exist_ok=True)
        for source in self.sources:
            for sink, path in (("parquet", f"{source}-parquet"), ("foreach", f"{source}-foreach/batch=*")):
                rows = (
                    self.session.read.parquet(str(self.place / path))
                    .select("partition", "offset", "value")
                    .orderBy("partition", "offset")
                    .collect()
                )
                (self.place / "results" / f"{source}-{sink}.json").write_text(json.dumps([tuple(row) for row in rows]))


def batch_files(place: Path) -> Callable[[DataFrame, int], None]:
    """The function for foreachBatch, keyed by batch id: a replay overwrites the same directory."""

    def write(frame: DataFrame, number: int) -> None:
        frame.write.mode("overwrite").parquet(str(place / f"batch={number}"))

    return write


def main(path: str) -> None:
    spec = json.loads(Path(path).read_text())
    session = start_session(Path(spec["directory"]), master=spec["master"])
    try:
        Job(spec, session).run()
    except FactoryStuck as problem:
        print(problem, file=sys.stderr, flush=True)
        os._exit(STUCK)  # Exit immediately: an orderly end would wait for the stuck factory.
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
