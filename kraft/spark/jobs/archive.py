"""Copy a topic to Parquet, exactly once: each micro-batch has its own directory, which a replay rewrites. delta.py
writes a Delta table instead of plain files.

Layout: `<directory>/batch=<number>/day=<UTC day of the timestamp>/partition=<partition>/*.parquet`, with the columns of
the source. With `by_hour` there is `hour=<0 to 23>` below the day. For several topics, each has its own such directory,
`<directory>/topic=<name>`. A batch's directory appears complete, because Spark writes to another name and renames it.
So any reader of the directory sees each record once, without Spark's help. The checkpoint is in
`<directory>/_checkpoint`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.access import Access
from kraft.spark.jobs.delta import BatchCommits, is_table, require_library
from kraft.spark.jobs.files import literal
from kraft.spark.jobs.memory import NAME, Memory, check_same
from kraft.spark.jobs.pending_renames import carry_out
from kraft.spark.jobs.reading import AS_IT_IS, Reading, Starts, starts_of
from kraft.spark.jobs.running import JobFailed, JobNotFound, Notice, Say, run_to_the_end
from kraft.spark.jobs.selection import Selection
from kraft.spark.jobs.topics import SeenTopic, identity_of, log_starts, require_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = "batch="
CHECKPOINT = "_checkpoint"
DELTA = "delta"
TOPIC = "topic="
PARTITION = "partition="
WHOLE = "_SUCCESS"
"""Spark writes this file last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The parameters of an archive job. `records_per_batch` limits a micro-batch, and so a file. `by_hour`: files are
    also split by hour. `format` is `parquet`, or `delta` for a Delta table."""

    topic: str
    directory: str
    at: Access
    records_per_batch: int = 1_000_000
    by_hour: bool = False
    format: str = "parquet"
    reading: Reading = AS_IT_IS


def archive_many(session: SparkSession, selection: Selection, wanted: Archive, say: Say) -> dict[str, Any]:
    """Archive one topic after another, each with its own directory and checkpoint. `wanted` has the other parameters.
    Raises JobNotFound, JobFailed."""
    found, place = selection.require(wanted.at), Path(wanted.directory).absolute()
    if not found:
        raise JobNotFound(f"no topic at {wanted.at.bootstrap} matches {selection.pattern}")
    if is_archive(place):
        raise JobFailed(f"{place} holds an archive of one topic: give another directory")
    summaries = []
    for topic in found:
        say(Notice(f"topic {topic}"))
        one = replace(wanted, topic=topic, directory=str(place / f"{TOPIC}{topic}"))
        summaries.append(archive(session, one, say))
    return {
        "job": "archive",
        "topics": len(summaries),
        "directory": str(place),
        "records": sum(each["records"] for each in summaries),
        "batches": sum(each["batches"] for each in summaries),
    }


def archive(session: SparkSession, wanted: Archive, say: Say) -> dict[str, Any]:
    """Archive one topic and return the summary. Raises JobNotFound, JobFailed."""
    if wanted.format == DELTA:
        require_library()
    found = require_topic(wanted.at, wanted.topic)
    place = Path(wanted.directory).absolute()
    if not is_archive(place) and any(place.glob(f"{TOPIC}*")):
        raise JobFailed(f"{place} holds archives of several topics: that of one is in {place}/{TOPIC}{wanted.topic}")
    memory = Memory(session, str(place / CHECKPOINT))
    with memory.alone(say):
        carry_out(place)
        wanted = replace(wanted, reading=wanted.reading.settled(memory.recall(), is_begun=memory.is_begun()))
        starts = begun(wanted, found, place, memory)
        options = wanted.reading.stream_options(wanted.at, wanted.topic, wanted.records_per_batch, starts)
        by_hour = wanted.by_hour
        sink = BatchCommits(place, memory, by_hour) if wanted.format == DELTA else BatchFiles(place, by_hour)
        writer = session.readStream.format("kraft").options(**options).load().writeStream.foreachBatch(sink)
        progress = run_to_the_end(writer, memory.checkpoint, say)
    return {
        "job": "archive",
        "topic": wanted.topic,
        "directory": str(place),
        "records": progress.rows,
        "batches": progress.batches,
    }


def begun(wanted: Archive, found: SeenTopic, place: Path, memory: Memory) -> Starts | None:
    """Check that this run continues the first run, and return where that started. Raises JobFailed."""
    by = "hour" if wanted.by_hour else "day"
    known, wish = (
        memory.recall(),
        {"job": "archive", "format": wanted.format, "files by": by, **wanted.reading.remembered},
    )
    wish |= identity_of(wanted.topic, found)
    if known is not None:
        check_same(known, wish, str(place))
        return starts_of(known, found.partitions or 0)
    if not memory.is_begun() and (is_table(place) or any(place.glob(f"{BATCH}*"))):
        raise JobFailed(
            f"{place} holds an archive whose {CHECKPOINT} is gone: what has been archived is not known; give "
            "another directory"
        )
    starts = None if memory.is_begun() else log_starts(wanted.at, wanted.topic)
    memory.remember({**wish, "starts": starts})
    return starts


class BatchFiles:
    """Writes a micro-batch to its directory. A complete directory is not written again."""

    def __init__(self, place: Path, by_hour: bool) -> None:
        self.place, self.by_hour = place, by_hour

    def __call__(self, frame: DataFrame, number: int) -> None:
        from pyspark.sql import functions as f

        directory = self.place / f"{BATCH}{number:08d}"
        if (directory / WHOLE).is_file():
            # By a run that was cut off before it was noted. Overwriting deletes first, and the log may not hold all of
            # it any more.
            return
        dated, columns = frame.withColumn("day", f.to_date("timestamp")), ["day", "partition"]
        if self.by_hour:
            dated, columns = dated.withColumn("hour", f.hour("timestamp")), ["day", "hour", "partition"]
        dated.write.mode("overwrite").partitionBy(*columns).parquet(str(directory))


def is_archive(directory: Path) -> bool:
    """Whether a run has written to the directory, or has started without finding records."""
    return any(directory.glob(f"{BATCH}*")) or (directory / CHECKPOINT / NAME).is_file()


def files_of(directory: Path) -> list[Path]:
    """Return the files of an archive, sorted. The directory of each names the partition."""
    return sorted(directory.glob(f"{BATCH}*/day=*/**/{PARTITION}*/*.parquet"))


def read_archive(session: SparkSession, directory: Path) -> DataFrame:
    """Return the archived records with the columns of the source."""
    from kraft.spark.decode.rows import spark_schema

    if not any(files_of(directory)):
        return session.createDataFrame([], spark_schema(include_headers=True))
    return (
        session.read.option("basePath", str(directory))
        .parquet(f"{literal(directory)}/{BATCH}*")
        .drop("batch", "day", "hour")
    )
