"""Copy topics to an Iceberg table, exactly once: each micro-batch is one snapshot (iceberg.py).

Several topics are copied to the same table one after another. Each topic has its own query and checkpoint. The
checkpoint also names the runs that may have left files behind. These files are removed after the next commit of a
batch: from then on the catalog rejects a late commit of a killed run, so its files are no longer needed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kraft.security.acls import Operation
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.archive import (
    TOPIC,
    Typed,
    check_dead_letter,
    check_open_batch,
    columns_of,
    dead_letter_of,
    remembered_of,
    without_values,
    written_files,
)
from kraft.spark.jobs.dead_letters import DeadLetters, divided
from kraft.spark.jobs.early_cluster import EarlyCluster, early
from kraft.spark.jobs.early_files import local_checkpoint
from kraft.spark.jobs.file_source import TABLE
from kraft.spark.jobs.iceberg import (
    TableName,
    check_table,
    commit_batch,
    ensure_table,
    evolve_table,
    find_table,
    is_next,
    partition_parts,
    reloaded,
    require_library,
    time_unit,
)
from kraft.spark.jobs.iceberg_files import TableLayout, data_files, remove_orphans, table_layout
from kraft.spark.jobs.job_state import Document, Memory, Remembered, check_same
from kraft.spark.jobs.parquet_files import codec_of
from kraft.spark.jobs.reading import AS_IT_IS, Reading, Starts, starts_of
from kraft.spark.jobs.running import JobFailed, JobNotFound, Notice, Say, run_to_the_end, state_directory
from kraft.spark.jobs.selection import Selection
from kraft.spark.jobs.topics import SeenTopic, ensure_topic, identity_of, log_starts, require_topic

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

ICEBERG = "iceberg"
PLACES = frozenset(("type", "py-catalog-impl", "uri", "warehouse", "prefix", "glue.id", "glue.endpoint"))
"""Properties that say which catalog is meant."""
RUNS = "runs"
"""In a checkpoint's document: the runs whose directories may hold files that are in no snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableArchive:
    """The parameters of the job. `by` is the partition spec of the table. `checkpoint` is a directory, or None for one
    in the user's state directory."""

    topic: str
    table: TableName
    at: Access
    by: tuple[str, ...]
    records_per_batch: int = 1_000_000
    reading: Reading = AS_IT_IS
    typed: Typed | None = None
    checkpoint: str | None = None

    @property
    def is_begun_as(self) -> Document:
        return {
            "job": "archive",
            "format": ICEBERG,
            "table": self.table.shown,
            "partition by": ", ".join(self.by),
            **self.reading.remembered,
            **remembered_of(self.typed),
        }


def check_archive_table(wanted: TableArchive, selection: Selection, settings: Mapping[str, str]) -> None:
    """Check all that can be checked before Spark starts. `settings` are those for Spark. Writes nothing. Raises
    JobNotFound, JobFailed."""
    require_library()
    parts, table = partition_parts(wanted.by), find_table(wanted.table)
    for topic, found in early(wanted.at, lambda cluster: seen_topics(cluster, wanted, selection)).items():
        columns = columns_of(wanted.typed, topic)
        if table is not None:
            check_table(wanted.table, table, columns, parts)
        one = of_topic(wanted, topic, found, is_one=len(selection.topics) == 1)
        checkpoint = local_checkpoint(str(one.checkpoint), settings)
        if checkpoint is not None:
            checkpoint.check_free()
            reading = one.reading.settled(checkpoint.recall(), is_begun=checkpoint.is_begun())
            check_begun(replace(one, reading=reading), found, checkpoint)


def seen_topics(cluster: EarlyCluster, wanted: TableArchive, selection: Selection) -> dict[str, SeenTopic]:
    check_dead_letter(cluster, wanted.typed, selection)
    if len(selection.topics) == 1:
        return {selection.topics[0]: cluster.existing(selection.topics[0], Operation.READ)}
    return {each: cluster.seen(each, Operation.READ) for each in required_topics(wanted, selection)}


def required_topics(wanted: TableArchive, selection: Selection) -> dict[str, SeenTopic]:
    found = selection.require(wanted.at)
    if not found:
        raise JobNotFound(f"no topic at {wanted.at.bootstrap} matches {selection.pattern}")
    return found


def of_topic(wanted: TableArchive, topic: str, found: SeenTopic, *, is_one: bool) -> TableArchive:
    """Return the parameters of the job for one topic, with its checkpoint."""
    if wanted.checkpoint is not None and not is_one:
        return replace(wanted, topic=topic, checkpoint=str(Path(wanted.checkpoint) / f"{TOPIC}{topic}"))
    at = found.cluster, topic, wanted.table.shown
    # Earlier versions named the directory by all properties. It is still used if it exists.
    before, names = ((*at, *sorted(f"{k}={v}" for k, v in each.items())) for each in places_of(wanted.table))
    earlier = Path(state_directory(wanted.checkpoint, "archive", before, before))
    given = str(earlier) if earlier.exists() else wanted.checkpoint
    return replace(wanted, topic=topic, checkpoint=state_directory(given, "archive", names, names))


def places_of(table: TableName) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return all properties of the catalog, and those that identify it, without passwords. Only the latter are compared
    between runs: tokens and keys may change from run to run."""
    kept = {name: value for name, value in table.properties.items() if name in PLACES}
    if "uri" in kept:
        parts = urlsplit(kept["uri"])
        kept["uri"] = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return table.properties, kept


def check_begun(wanted: TableArchive, found: SeenTopic, memory: Remembered) -> tuple[Document | None, Document]:
    """Return the document of the first run and the document that this run would write. Raises JobFailed if this run
    does not continue the first one."""
    known, wish = memory.recall(), wanted.is_begun_as | identity_of(wanted.topic, found)
    if known is not None:
        check_same(known, without_values(wish), str(wanted.checkpoint))
        check_open_batch(known, wish, memory)
    elif memory.is_begun():
        raise JobFailed(f"{wanted.checkpoint} is the checkpoint of another query: give another one")
    return known, wish


def archive_tables(session: SparkSession, selection: Selection, wanted: TableArchive, say: Say) -> dict[str, Any]:
    """Archive the topics one after another. Raises JobNotFound, JobFailed."""
    is_one = len(selection.topics) == 1
    if is_one:
        topics = {selection.topics[0]: require_topic(wanted.at, selection.topics[0])}
    else:
        topics = required_topics(wanted, selection)
    summaries = []
    for topic, found in topics.items():
        if not is_one:
            say(Notice(f"topic {topic}"))
        summaries.append(archive_table(session, of_topic(wanted, topic, found, is_one=is_one), found, say))
    return {
        "job": "archive",
        **({"topic": selection.topics[0]} if is_one else {"topics": len(summaries)}),
        "table": wanted.table.shown,
        "records": sum(each["records"] for each in summaries),
        "batches": sum(each["batches"] for each in summaries),
        **({"dead_letters": sum(each["dead_letters"] for each in summaries)} if dead_letter_of(wanted.typed) else {}),
        **({"checkpoint": summaries[0]["checkpoint"]} if is_one else {}),
    }


def archive_table(session: SparkSession, wanted: TableArchive, found: SeenTopic, say: Say) -> dict[str, Any]:
    """Archive one topic and return the summary. Raises JobFailed."""
    parts, columns, memory = (
        partition_parts(wanted.by),
        columns_of(wanted.typed, wanted.topic),
        Memory(session, str(wanted.checkpoint)),
    )
    with memory.alone(say):
        wanted = replace(wanted, reading=wanted.reading.settled(memory.recall(), is_begun=memory.is_begun()))
        known, wish = check_begun(wanted, found, memory)
        starts = log_starts(wanted.at, wanted.topic) if known is None else None
        document = {**wish, "starts": starts, RUNS: []} if known is None else {**known, **remembered_of(wanted.typed)}
        memory.remember(document)
        dead = DeadLetters(wanted.at, dead_letter_of(wanted.typed))
        if dead.topic is not None:
            ensure_topic(wanted.at, dead.topic, 1)
        table = ensure_table(wanted.table, columns, parts)
        check_table(wanted.table, table, columns, parts)
        if evolve_table(wanted.table, table, columns):
            say(Notice(f"the table {wanted.table.shown} has new columns or wider types"))
        runs = [*document.get(RUNS, []), uuid.uuid4().hex]
        memory.remember({**document, RUNS: runs})
        sets_aside = dead.topic is not None
        layout = table_layout(table, runs[-1], time_unit(parts), codec_of(session), sets_aside=sets_aside)
        sink = SnapshotCommits(table, memory, layout, dead)
        options = stream_options(wanted, starts if known is None else starts_of(known, found.partitions or 0))
        writer = written_files(session, {**options, TABLE: layout.text()}).writeStream.foreachBatch(sink)
        progress = run_to_the_end(session, writer, memory.checkpoint, say)
        memory.remember({**document, RUNS: clean_up(table, sink, runs, say)})
    counts = {"records": progress.rows, "batches": progress.batches}
    return {"checkpoint": wanted.checkpoint, **counts, **dead.summary}


def stream_options(wanted: TableArchive, starts: Starts | None) -> dict[str, str]:
    options = wanted.reading.stream_options(wanted.at, wanted.topic, wanted.records_per_batch, starts)
    return options if wanted.typed is None else options | wanted.typed.options


def clean_up(table: Table, sink: SnapshotCommits, runs: list[str], say: Say) -> list[str]:
    """Remove files that are in no snapshot. Returns the runs that may still have such files. If this run has committed
    nothing, a commit of an earlier run may still arrive."""
    removed = remove_orphans(table, runs[-1], sink.kept)
    if not sink.commits:
        return runs[:-1]
    if len(runs) > 1:
        reloaded(table)
        removed += sum(remove_orphans(table, each) for each in runs[:-1])
    if removed:
        say(Notice(f"removed {removed} data files of attempts that did not commit"))
    return []


class SnapshotCommits:
    """Commits a micro-batch to the table, unless the table already has the batch's number."""

    def __init__(self, table: Table, memory: Memory, layout: TableLayout, dead: DeadLetters) -> None:
        self.table, self.memory, self.layout, self.dead = table, memory, layout, dead
        self.commits = 0
        self.kept: set[str] = set()

    def __call__(self, frame: DataFrame, number: int) -> None:
        query: str = json.loads(self.memory.text("metadata"))["id"]
        reloaded(self.table)
        if not is_next(self.table, query, number):
            return
        rows, dead = divided(frame.collect())
        self.dead.write(frame.sparkSession, self.layout, dead)
        files = data_files(self.table, self.layout, rows)
        self.commits += commit_batch(self.table, query, number, files)
        self.kept |= {each.file_path for each in files}
