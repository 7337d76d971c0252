"""Copy a topic to Parquet, exactly once: each micro-batch has its own directory, which a replay rewrites. delta.py
writes a Delta table instead of plain files.

Layout: `<directory>/batch=<number>/day=<UTC day of the timestamp>/partition=<partition>/*.parquet`, with the columns of
the source. With `by_hour` there is `hour=<0 to 23>` below the day. For several topics, each has its own such directory,
`<directory>/topic=<name>`. Tasks write files under hidden names (parquet_files.py). The driver gathers those of a batch
in one directory and renames it, so it appears complete. So any reader of the directory sees each record once, without
Spark's help. The checkpoint is in `<directory>/_checkpoint`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kraft.security.acls import Operation
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.dead_letters import DeadLetters, divided
from kraft.spark.jobs.delta import BatchCommits, evolve, evolved, is_table, require_library
from kraft.spark.jobs.early_cluster import EarlyCluster, early
from kraft.spark.jobs.early_files import check_writable, local_checkpoint
from kraft.spark.jobs.files import literal
from kraft.spark.jobs.job_state import BAD, DEAD, FORMAT, NAME, VALUES, Document, Memory, Remembered, check_same
from kraft.spark.jobs.parquet_files import Layout, codec_of, put, serialized, staging
from kraft.spark.jobs.pending_renames import carry_out
from kraft.spark.jobs.reading import AS_IT_IS, Reading, Starts, starts_of
from kraft.spark.jobs.running import WRITTEN, JobFailed, JobNotFound, Notice, Say, run_to_the_end
from kraft.spark.jobs.selection import Selection
from kraft.spark.jobs.topics import SeenTopic, ensure_topic, identity_of, log_starts, require_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = "batch="
CHECKPOINT = "_checkpoint"
DELTA = "delta"
TOPIC = "topic="
PARTITION = "partition="
WHOLE = "_SUCCESS"
"""The file that a complete directory has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """How values are decoded. `format` and `schema` are the source's options `valueFormat` and `valueSchema`. The
    column `value` is a struct of the schema's fields. `bad_records` is that of the source: `fail`, `null` or `column`.
    With `dead_letter`, bad records go to this topic instead."""

    schema: str
    format: str = "json"
    bad_records: str = "fail"
    dead_letter: str | None = None

    @property
    def options(self) -> dict[str, str]:
        bad = self.bad_records if self.dead_letter is None else "column"
        return {"valueFormat": self.format, "valueSchema": self.schema, "badRecords": bad}

    @property
    def remembered(self) -> Document:
        return {
            VALUES: self.schema,
            FORMAT: self.format,
            BAD: self.bad_records,
            DEAD: self.dead_letter or "",
        }


NOT_TYPED: Document = {VALUES: "", FORMAT: "", BAD: "", DEAD: ""}


def remembered_of(typed: Typed | None) -> Document:
    """Return how values are decoded, in the form that a checkpoint stores."""
    return NOT_TYPED if typed is None else typed.remembered


def dead_letter_of(typed: Typed | None) -> str | None:
    return None if typed is None else typed.dead_letter


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The parameters of an archive job. `records_per_batch` limits a micro-batch, and so a file. `by_hour`: files are
    also split by hour. `format` is `parquet`, or `delta` for a Delta table. `typed`: how values become columns."""

    topic: str
    directory: str
    at: Access
    records_per_batch: int = 1_000_000
    by_hour: bool = False
    format: str = "parquet"
    reading: Reading = AS_IT_IS
    typed: Typed | None = None


def check_archive(wanted: Archive, selection: Selection, settings: Mapping[str, str]) -> None:
    """Check all that can be checked before Spark starts. `settings` are those for Spark. Writes nothing. `wanted` is as
    for `archive_many`, unless the selection is one topic by name. Raises JobNotFound, JobFailed."""
    place = Path(wanted.directory).absolute()
    check_writable(place)
    if wanted.format == DELTA:
        require_library()
    for one, found in early(wanted.at, lambda cluster: seen_archives(cluster, wanted, selection)):
        columns = columns_of(wanted.typed, one.topic)
        if wanted.format == DELTA:
            evolved(Path(one.directory).absolute(), columns)
        checkpoint = local_checkpoint(str(Path(one.directory).absolute() / CHECKPOINT), settings)
        if checkpoint is not None:
            checkpoint.check_free()
            reading = one.reading.settled(checkpoint.recall(), is_begun=checkpoint.is_begun())
            check_begun(replace(one, reading=reading), found, Path(one.directory).absolute(), checkpoint)


def seen_archives(cluster: EarlyCluster, wanted: Archive, selection: Selection) -> list[tuple[Archive, SeenTopic]]:
    """Return the archive of each topic, and the topic. Raises JobNotFound, JobFailed."""
    place = Path(wanted.directory).absolute()
    check_dead_letter(cluster, wanted.typed, selection)
    if len(selection.topics) == 1:
        topic = selection.topics[0]
        found = cluster.existing(topic, Operation.READ)
        check_one(place, topic)
        return [(replace(wanted, topic=topic), found)]
    every = required_topics(selection, wanted.at, place)
    return [
        (replace(wanted, topic=topic, directory=str(place / f"{TOPIC}{topic}")), cluster.seen(topic, Operation.READ))
        for topic in every
    ]


def check_dead_letter(cluster: EarlyCluster, typed: Typed | None, selection: Selection) -> None:
    """Check that this user can write dead letters, in transactions, and that they are not archived. Raises
    JobFailed."""
    topic = dead_letter_of(typed)
    if topic is None:
        return
    if selection.includes(topic):
        raise JobFailed(f"{topic} is the topic of dead letters, and one that is archived: give another one")
    cluster.target(topic, 1)
    cluster.check_transactions()


def required_topics(selection: Selection, at: Access, place: Path) -> dict[str, SeenTopic]:
    """Return the topics of several archives below one directory. Raises JobNotFound, JobFailed."""
    found = selection.require(at)
    if not found:
        raise JobNotFound(f"no topic at {at.bootstrap} matches {selection.pattern}")
    if is_archive(place):
        raise JobFailed(f"{place} holds an archive of one topic: give another directory")
    return found


def check_one(place: Path, topic: str) -> None:
    """Raise JobFailed if the directory holds several archives."""
    if not is_archive(place) and any(place.glob(f"{TOPIC}*")):
        raise JobFailed(
            f"{place} holds archives of several topics: the archive of this topic is in {place}/{TOPIC}{topic}"
        )


def archive_many(session: SparkSession, selection: Selection, wanted: Archive, say: Say) -> dict[str, Any]:
    """Archive one topic after another, each with its own directory and checkpoint. `wanted` has the other parameters.
    Raises JobNotFound, JobFailed."""
    place = Path(wanted.directory).absolute()
    summaries = []
    for topic in required_topics(selection, wanted.at, place):
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
    from kraft.spark.jobs.file_source import LAYOUT

    if wanted.format == DELTA:
        require_library()
    columns = columns_of(wanted.typed, wanted.topic)
    found = require_topic(wanted.at, wanted.topic)
    place = Path(wanted.directory).absolute()
    check_one(place, wanted.topic)
    memory = Memory(session, str(place / CHECKPOINT))
    with memory.alone(say):
        carry_out(place)
        wanted = replace(wanted, reading=wanted.reading.settled(memory.recall(), is_begun=memory.is_begun()))
        starts = begun(wanted, found, place, memory)
        options = wanted.reading.stream_options(wanted.at, wanted.topic, wanted.records_per_batch, starts)
        if wanted.typed is not None:
            options |= wanted.typed.options
        is_delta, hours = wanted.format == DELTA, ("hour",) if wanted.by_hour else ()
        dead = DeadLetters(wanted.at, dead_letter_of(wanted.typed))
        if dead.topic is not None:
            ensure_topic(wanted.at, dead.topic, 1)
        by = ("topic", "day", *hours) if is_delta else ("day", *hours, "partition")
        with staging(place) as hidden:
            layout = Layout(
                staging=str(hidden),
                by=by,
                codec=codec_of(session),
                int96=not is_delta and wanted.typed is None,
                columns=serialized(evolve(place, columns)) if is_delta else "",
                sets_aside=dead.topic is not None,
            )
            sink = BatchCommits(place, memory, layout, columns, dead) if is_delta else BatchFiles(place, layout, dead)
            writer = written_files(session, {**options, LAYOUT: layout.text()}).writeStream.foreachBatch(sink)
            progress = run_to_the_end(session, writer, memory.checkpoint, say)
    return {
        "job": "archive",
        "topic": wanted.topic,
        "directory": str(place),
        "records": progress.rows,
        "batches": progress.batches,
        **dead.summary,
    }


def without_values(wish: Document) -> Document:
    """Return the parameters that must be the same in every run of a table. The columns of a table may evolve."""
    return {name: value for name, value in wish.items() if name not in NOT_TYPED}


def check_open_batch(known: Document, wish: Document, memory: Remembered) -> None:
    """Raise JobFailed if values are decoded in another way while a micro-batch with dead letters is not finished: its
    dead letters may be in their topic already, and must be those of the same records."""
    if not known.get(DEAD) or all(known.get(name) == wish[name] for name in NOT_TYPED):
        return
    if (number := memory.open_batch()) is not None:
        raise JobFailed(
            f"micro-batch {number} of {memory.checkpoint} is not finished, and has dead letters: run the job once as "
            f"before (value schema {known[VALUES]}), then change it"
        )


def columns_of(typed: Typed | None, topic: str = "") -> pa.Schema:
    """Return the columns of the files. `topic` names the subject in a schema registry. Raises JobFailed for a schema
    that cannot be read."""
    from kraft.spark.decode.rows import arrow_schema
    from kraft.spark.decode.shape import BAD as REASON
    from kraft.spark.decode.shape_options import shape_options

    given = {} if typed is None else {name.lower(): value for name, value in typed.options.items()}
    if topic:
        given["subscribe"] = topic
    try:
        shape = shape_options(given, include_headers=True)
    except ValueError as problem:
        raise JobFailed(str(problem)) from problem
    if shape is None:
        return arrow_schema(include_headers=True)
    if dead_letter_of(typed) is None:
        return shape.schema
    return pa.schema([each for each in shape.schema if each.name != REASON])


def check_begun(wanted: Archive, found: SeenTopic, place: Path, memory: Remembered) -> tuple[Document | None, Document]:
    """Return the document of the first run and the document that this run would write. Raises JobFailed if this run
    does not continue the first one."""
    by = "hour" if wanted.by_hour else "day"
    known, wish = (
        memory.recall(),
        {"job": "archive", "format": wanted.format, "files by": by, **wanted.reading.remembered},
    )
    wish |= remembered_of(wanted.typed)
    wish |= identity_of(wanted.topic, found)
    if known is not None:
        kept = wish if wanted.format != DELTA else without_values(wish)
        check_same(known, kept, str(place))
        check_open_batch(known, wish, memory)
    elif not memory.is_begun() and (is_table(place) or any(place.glob(f"{BATCH}*"))):
        raise JobFailed(
            f"{place} holds an archive whose {CHECKPOINT} is missing, so the archived offsets are unknown: "
            "give another directory"
        )
    return known, wish


def begun(wanted: Archive, found: SeenTopic, place: Path, memory: Memory) -> Starts | None:
    """Check that this run continues the first run, and return the offsets at which the first run started. Raises
    JobFailed."""
    known, wish = check_begun(wanted, found, place, memory)
    if known is not None:
        memory.remember({**known, **{name: wish[name] for name in NOT_TYPED}})
        return starts_of(known, found.partitions or 0)
    starts = None if memory.is_begun() else log_starts(wanted.at, wanted.topic)
    memory.remember({**wish, "starts": starts})
    return starts


def written_files(session: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return a stream with a row for each file that tasks have written. It must be evaluated once. `options` are those
    of FilesSource."""
    from pyspark.sql import functions as f

    from kraft.spark.jobs.file_source import FORMAT, FilesSource

    session.dataSource.register(FilesSource)
    rows = session.readStream.format(FORMAT).options(**options).load()
    sums = [f.coalesce(f.sum(each), f.lit(0)).alias(each) for each in ("records", "bytes")]
    return rows.observe(WRITTEN, *sums)


class BatchFiles:
    """Writes a micro-batch to its directory. A complete directory is not written again."""

    def __init__(self, place: Path, layout: Layout, dead: DeadLetters) -> None:
        self.place, self.layout, self.dead = place, layout, dead

    def __call__(self, frame: DataFrame, number: int) -> None:
        directory = self.place / f"{BATCH}{number:08d}"
        if (directory / WHOLE).is_file():
            # By a run that was cut off before it was noted. Overwriting deletes first, and the log may not hold all of
            # it any more.
            return
        hidden = Path(self.layout.staging) / directory.name
        files, dead = divided(frame.collect())
        self.dead.write(frame.sparkSession, self.layout, dead)
        put(files, self.layout, hidden)
        (hidden / WHOLE).touch()
        if directory.exists():  # Written in part, by an earlier version.
            shutil.rmtree(directory)
        hidden.rename(directory)


def is_archive(directory: Path) -> bool:
    """Whether a run has written to the directory, or has started without finding records."""
    return any(directory.glob(f"{BATCH}*")) or (directory / CHECKPOINT / NAME).is_file()


def is_typed(directory: Path) -> bool:
    """Whether the values of an archive are typed. Raises JobFailed for a file that no job wrote."""
    path = directory / CHECKPOINT / NAME
    try:
        return path.is_file() and bool(json.loads(path.read_text(encoding="utf-8")).get(VALUES))
    except ValueError as problem:
        raise JobFailed(f"{path} is damaged: {problem}") from problem


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
