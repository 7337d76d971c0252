"""A topic into Parquet, once: each micro-batch has a directory of its own, which a replay writes anew.

Layout: `<directory>/batch=<number>/day=<UTC day of the timestamp>/partition=<partition>/*.parquet`, with the columns
of the source. A batch's directory appears whole (Spark writes beside and renames), and nothing else ever counts: any
reader of the directory sees each record once, without knowing of Spark. The checkpoint is in
`<directory>/_checkpoint`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.access import Access
from kraft.spark.jobs.files import literal
from kraft.spark.jobs.memory import NAME, Memory, check_same
from kraft.spark.jobs.reading import AS_IT_IS, Reading, Starts, starts_of
from kraft.spark.jobs.running import JobFailed, Say, run_to_the_end
from kraft.spark.jobs.topics import SeenTopic, identity_of, log_starts, require_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT = "_checkpoint"
WHOLE = "_SUCCESS"
"""Spark writes this file last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """`records_per_batch` bounds a micro-batch, and so a file."""

    topic: str
    directory: str
    at: Access
    records_per_batch: int = 1_000_000
    reading: Reading = AS_IT_IS


def archive(session: SparkSession, wanted: Archive, say: Say) -> dict[str, Any]:
    """Raises JobNotFound, JobFailed."""
    found = require_topic(wanted.at, wanted.topic)
    place = Path(wanted.directory).absolute()
    memory = Memory(session, str(place / CHECKPOINT))
    with memory.alone(say):
        wanted = replace(wanted, reading=wanted.reading.settled(memory.recall(), is_begun=memory.is_begun()))
        starts = begun(wanted, found, place, memory)
        options = wanted.reading.stream_options(wanted.at, wanted.topic, wanted.records_per_batch, starts)
        writer = (
            session.readStream.format("kraft").options(**options).load().writeStream.foreachBatch(BatchFiles(place))
        )
        progress = run_to_the_end(writer, memory.checkpoint, say)
    return {
        "job": "archive",
        "topic": wanted.topic,
        "directory": str(place),
        "records": progress.rows,
        "batches": progress.batches,
    }


def begun(wanted: Archive, found: SeenTopic, place: Path, memory: Memory) -> Starts | None:
    """Where the first run began, once it is known that this one goes on with it. Raises JobFailed."""
    known, wish = memory.recall(), {"job": "archive", **wanted.reading.remembered, **identity_of(wanted.topic, found)}
    if known is not None:
        check_same(known, wish, str(place))
        return starts_of(known, found.partitions or 0)
    if not memory.is_begun() and any(place.glob("batch=*")):
        raise JobFailed(
            f"{place} holds an archive whose {CHECKPOINT} is gone: what has been archived is not known; give "
            "another directory"
        )
    starts = None if memory.is_begun() else log_starts(wanted.at, wanted.topic)
    memory.remember({**wish, "starts": starts})
    return starts


class BatchFiles:
    """Writes a micro-batch to its directory; again, if it is not there whole."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, frame: DataFrame, number: int) -> None:
        from pyspark.sql import functions as f

        directory = self.place / f"batch={number:08d}"
        if (directory / WHOLE).is_file():
            # By a run that was cut off before it was noted. Overwriting deletes first, and the log may not hold all of
            # it any more.
            return
        dated = frame.withColumn("day", f.to_date("timestamp"))
        dated.write.mode("overwrite").partitionBy("day", "partition").parquet(str(directory))


def is_archive(directory: Path) -> bool:
    """Whether a run has written here, or has begun to: what it found may have been nothing."""
    return any(directory.glob("batch=*")) or (directory / CHECKPOINT / NAME).is_file()


def read_archive(session: SparkSession, directory: Path) -> DataFrame:
    """The archived records with the columns of the source."""
    from kraft.spark.rows import spark_schema

    if not any(directory.glob("batch=*/day=*/partition=*/*.parquet")):
        return session.createDataFrame([], spark_schema(include_headers=True))
    return session.read.option("basePath", str(directory)).parquet(f"{literal(directory)}/batch=*").drop("batch", "day")
