"""Write files to a topic: each line of text or JSON, and each row of CSV, ORC, Parquet or Avro (as JSON), is a record.
Files that an earlier run has written are skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.access import Access
from kraft.spark.jobs.avro_files import require_library
from kraft.spark.jobs.batches import (
    BYTES_PER_BATCH,
    FILES_PER_BATCH,
    FileSize,
    Limit,
    limit_of,
    needed_ms,
    sizes_of,
    transaction_ms,
)
from kraft.spark.jobs.early_cluster import EarlyCluster, early
from kraft.spark.jobs.early_files import check_first_records, check_readable, local_checkpoint
from kraft.spark.jobs.files import AVRO, SourceFiles, check_files, records, source_files
from kraft.spark.jobs.job_state import Document, Memory, check_same, keep_settings
from kraft.spark.jobs.processed_files import ProcessedFiles
from kraft.spark.jobs.running import JobNotFound, Say, Share, run_to_the_end, spark_errors, state_directory
from kraft.spark.jobs.topic_configs import transaction_max_ms
from kraft.spark.jobs.topics import SeenTopic, check_there, ensure_topic, identity_of, look_up
from kraft.spark.jobs.watching import watched
from kraft.spark.sink.sink_options import TRANSACTION_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """The parameters of an ingest job. `key` names a column. `partitions` is for a topic that does not exist yet. CSV
    files have a header line. A micro-batch has at most `bytes_per_batch` and `files_per_batch`, except that a larger
    file is a micro-batch by itself. `every_seconds`: run endlessly, and look for files at this interval. `dead_letter`,
    only for JSON: a topic for lines that are not JSON objects; without it such a line fails the job."""

    path: str
    topic: str
    at: Access
    format: str
    key: str | None = None
    partitions: int = 1
    bytes_per_batch: int = BYTES_PER_BATCH
    files_per_batch: int = FILES_PER_BATCH
    checkpoint: str | None = None
    every_seconds: int | None = None
    dead_letter: str | None = None


def check_ingest(wanted: Ingest, settings: Mapping[str, str]) -> None:
    """Check all that can be checked before Spark starts. `settings` are those for Spark. Writes nothing. Raises
    JobNotFound, JobFailed."""
    given = Path(wanted.path).absolute()
    check_readable(given)
    files = source_files(wanted.format, given)
    if wanted.format == AVRO:
        require_library()

    def ask(cluster: EarlyCluster) -> SeenTopic:
        found = cluster.target(wanted.topic, wanted.partitions)
        if wanted.dead_letter is not None:
            cluster.target(wanted.dead_letter, 1)
        cluster.check_transactions()
        return found

    found = early(wanted.at, ask)
    checkpoint = local_checkpoint(checkpoint_of(wanted, given, found), settings)
    known = None if checkpoint is None else checkpoint.recall()
    if checkpoint is not None:
        checkpoint.check_free()
        if known is not None:
            check_there(wanted.topic, found, checkpoint.checkpoint)
            check_same(known, wish_of(wanted, given, found), checkpoint.checkpoint)
    if known is None:
        check_first_records(files, wanted.key, lines_may_be_wrong=wanted.dead_letter is not None)
    bounds_of(wanted, sizes_of(files.paths()))


def checkpoint_of(wanted: Ingest, given: Path, found: SeenTopic) -> str:
    names = found.cluster, wanted.topic, str(given.resolve())
    return state_directory(wanted.checkpoint, "ingest", names, before=(str(given), wanted.topic, wanted.at.bootstrap))


def ingest(session: SparkSession, wanted: Ingest, say: Say) -> dict[str, Any]:
    """Write the files to the topic and return the summary. Raises JobNotFound, JobFailed."""
    given = Path(wanted.path).absolute()
    if not given.exists():
        raise JobNotFound(f"{wanted.path} does not exist")
    found = look_up(wanted.at, wanted.topic)
    memory = Memory(session, checkpoint_of(wanted, given, found))
    with memory.alone(say):
        return ingest_alone(session, wanted, given, found, memory, say)


def ingest_alone(
    session: SparkSession, wanted: Ingest, given: Path, found: SeenTopic, memory: Memory, say: Say
) -> dict[str, Any]:
    checkpoint, known = memory.checkpoint, memory.recall()
    if known is not None:
        check_there(wanted.topic, found, checkpoint)
        check_same(known, wish_of(wanted, given, found), checkpoint)
    settings = keep_settings(session, None if known is None else known["settings"])
    # Spark knows the files it has processed by their names: those of a checkpoint stay spelled as they were.
    place = Path(known["place"]) if known is not None else given if memory.is_begun() else given.resolve()
    files = source_files(wanted.format, place)
    layout = "by columns" if files.by_columns else "plain"
    if known is not None:
        check_same(known, {"layout": layout}, checkpoint)
    with watched(session, say, "checking files"):
        shape = fitting_shape(session, files, known, wanted)
    found = ensure_topic(wanted.at, wanted.topic, wanted.partitions)
    if wanted.dead_letter is not None:
        ensure_topic(wanted.at, wanted.dead_letter, 1)
    if known is None:
        memory.remember(
            {
                **wish_of(wanted, given, found),
                "place": str(place),
                "layout": layout,
                "settings": settings,
                "schema": shape.jsonValue(),
            }
        )
    dead_letter = None if wanted.dead_letter is None else (wanted.topic, wanted.dead_letter)
    present = sizes_of(files.paths())
    limit, timeout_ms = bounds_of(wanted, present)
    frame = records(files.stream(session, shape, limit), wanted.format, wanted.key, dead_letter)
    writer = (
        frame.writeStream.format("kraft")
        .option("onDifference", "keep")  # A replayed batch may lack records deleted since.
        .option("taskTransactions", "never")  # The records of a partition keep their order.
        .option("kafka.transaction.timeout.ms", str(timeout_ms))
        .options(**wanted.at.options)
    )
    if dead_letter is None:
        writer = writer.option("topic", wanted.topic)
    progress = run_to_the_end(
        session, writer, checkpoint, say, every_seconds=wanted.every_seconds, share=share_of(wanted, memory, present)
    )
    return {
        "job": "ingest",
        "path": str(place),
        "topic": wanted.topic,
        "records": progress.rows,
        "batches": progress.batches,
        "checkpoint": checkpoint,
    }


def share_of(wanted: Ingest, memory: Memory, present: Sequence[FileSize]) -> Share | None:
    """Return the bytes of this run's files that are done, and their total. None for an endless run, and for a
    checkpoint outside this machine's file systems."""
    directory = memory.local
    if wanted.every_seconds is not None or directory is None:
        return None
    processed = ProcessedFiles(directory)
    left = processed.left(present)
    total = sum(each.size for each in left)
    return lambda: (total - sum(each.size for each in processed.left(left)), total)


def bounds_of(wanted: Ingest, present: Sequence[FileSize]) -> tuple[Limit, int]:
    """Return the limit of a micro-batch, and the timeout of its transaction in ms. Raises JobFailed for a file that is
    too large for a transaction."""
    limit = limit_of(
        [each.size for each in present],
        wanted.bytes_per_batch,
        wanted.files_per_batch,
        is_endless=wanted.every_seconds is not None,
    )
    needed = needed_ms(present, wanted.bytes_per_batch)
    if needed <= TRANSACTION_MS:
        return limit, needed
    return limit, transaction_ms(present, wanted.bytes_per_batch, transaction_max_ms(wanted.at))


def wish_of(wanted: Ingest, given: Path, found: SeenTopic) -> Document:
    """Return the parameters that must be the same in every run with one checkpoint."""
    return {
        "job": "ingest",
        "path": str(given.resolve()),
        "format": wanted.format,
        "key": wanted.key or "",
        "dead letter": wanted.dead_letter or "",
        **identity_of(wanted.topic, found),
    }


def fitting_shape(session: SparkSession, files: SourceFiles, known: Document | None, wanted: Ingest) -> StructType:
    """Return the columns of the first run, after checking that all present files fit them. Raises JobFailed."""
    from pyspark.sql.types import StructType

    with spark_errors():
        shape = files.shape(session) if known is None else StructType.fromJson(known["schema"])
        check_files(session, files, shape, wanted.key, lines_may_be_wrong=wanted.dead_letter is not None)
    return shape
