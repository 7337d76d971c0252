"""Files into a topic: each line of text, each row of CSV, JSON or Parquet (as JSON) a record. Files that a run before has taken are left alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.running import JobFailed, JobNotFound, Say, reason, run_to_the_end, state_directory
from kraft.spark.jobs.topics import ensure_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("csv", "json", "parquet", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """`key` names a column. `partitions` is for a topic that does not exist yet. CSV files have a header line."""

    path: str
    topic: str
    bootstrap: str
    format: str
    key: str | None = None
    partitions: int = 1
    files_per_batch: int = 100
    checkpoint: str | None = None


def ingest(session: SparkSession, wanted: Ingest, say: Say) -> dict[str, Any]:
    """Raises JobNotFound, JobFailed."""
    from pyspark.errors import PySparkException

    place = Path(wanted.path).absolute()
    if not place.exists():
        raise JobNotFound(f"{wanted.path} does not exist")
    checkpoint = state_directory(wanted.checkpoint, "ingest", str(place), wanted.topic, wanted.bootstrap)
    try:
        frame = records(stream_of(session, wanted, place), wanted)
    except PySparkException as problem:
        raise JobFailed(reason(problem)) from problem
    ensure_topic(wanted.bootstrap, wanted.topic, wanted.partitions)
    writer = frame.writeStream.format("kraft").option("kafka.bootstrap.servers", wanted.bootstrap).option("topic", wanted.topic)
    progress = run_to_the_end(writer, checkpoint, say)
    return {"job": "ingest", "path": str(place), "topic": wanted.topic, "records": progress.rows, "batches": progress.batches, "checkpoint": checkpoint}


def stream_of(session: SparkSession, wanted: Ingest, place: Path) -> DataFrame:
    """The rows of the files. Columns and types are those that all files there are now agree on."""
    options = {"header": "true", "inferSchema": "true"} if wanted.format == "csv" else {}
    shape = session.read.format(wanted.format).options(**options).load(str(place)).schema
    reader = session.readStream.format(wanted.format).options(**options).schema(shape).option("maxFilesPerTrigger", wanted.files_per_batch)
    return reader.load(str(place) if place.is_dir() else str(place.parent / f"{{{place.name}}}"))


def records(rows: DataFrame, wanted: Ingest) -> DataFrame:
    from pyspark.sql import functions as f

    if wanted.key is not None and wanted.key not in rows.columns:
        raise JobFailed(f"there is no column {wanted.key}; there are {', '.join(rows.columns)}")
    key = f.lit(None).cast("string") if wanted.key is None else f.col(f"`{wanted.key}`").cast("string")
    value = f.col("value") if wanted.format == "text" else f.to_json(f.struct(*[f.col(f"`{name}`") for name in rows.columns]))
    return rows.select(key.alias("key"), value.alias("value"))
