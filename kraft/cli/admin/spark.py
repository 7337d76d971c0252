"""`kraft spark`: pipelines over topics, run by Spark on this machine or on a cluster of yours."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kraft.cli.admin.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Codec,
    Output,
    OutputFormat,
    parse_bootstrap,
    parse_pairs,
)
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.running import FAILED, NOT_FOUND
from kraft.common.errors import ConfigurationError, KraftError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft.spark.jobs.access import Access
    from kraft.spark.jobs.reading import Reading
    from kraft.spark.jobs.running import Notice, Progress, Say

    Job = Callable[[SparkSession, Say], dict[str, Any]]

app = typer.Typer(
    help="Pipelines run by Spark: files to a topic, a topic to Parquet, cluster to cluster, and whether they agree.",
    no_args_is_help=True,
    add_completion=False,
)


class FileFormat(StrEnum):
    AVRO = "avro"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"
    PARQUET = "parquet"
    TEXT = "text"


class ArchiveFormat(StrEnum):
    DELTA = "delta"
    PARQUET = "parquet"


Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
Master = Annotated[
    str,
    typer.Option(
        "--master", metavar="URL", envvar="KRAFT_SPARK_MASTER", help="Where Spark runs, as spark-submit takes it."
    ),
]
Conf = Annotated[list[str], typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be given again.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Where the job remembers how far it is (a place of its own in ~/.local/state/kraft/spark).",
    ),
]
CommandConfig = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="KRAFT_COMMAND_CONFIG",
        help="Kafka's client keys for --bootstrap-server: security.protocol, sasl.jaas.config, ssl.truststore.location",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on the way.")]
ReadCommitted = Annotated[bool, typer.Option("--read-committed", hidden=True)]
"""As it is by default; checkpoints of earlier versions go on as they began without it."""
ReadUncommitted = Annotated[
    bool,
    typer.Option(
        "--read-uncommitted",
        help="Read records of transactions that are aborted or still open as well. They are left out without it. "
        "A run that goes on reads what the first one did.",
    ),
]
SkipLost = Annotated[
    bool, typer.Option("--skip-lost", help="Go on, with a warning, behind records that the log does not hold any more.")
]
ReplaceNames = Annotated[
    bool, typer.Option("--replace-header-names", help="Replace bytes of header names that are not UTF-8, as Java does.")
]
TopicsPattern = Annotated[
    str | None,
    typer.Option("--topics-pattern", metavar="REGEX", help="All topics whose whole names match, new ones too."),
]
Continuous = Annotated[
    int | None,
    typer.Option(
        "--continuous", metavar="SECONDS", min=1, help="Go on until it is stopped; look for what is new so often."
    ),
]
GroupsPattern = Annotated[
    str | None,
    typer.Option("--groups-pattern", metavar="REGEX", help="Keep offsets of these consumer groups there, translated."),
]
LOCAL = "local[*]"


def _isolation(committed: bool, uncommitted: bool) -> bool | None:
    """Return whether committed records alone are read; None: what the checkpoint says, or the default."""
    if committed and uncommitted:
        raise typer.BadParameter("--read-committed and --read-uncommitted exclude each other")
    return False if uncommitted else True if committed else None


def _reading(committed: bool, uncommitted: bool, *, skip_lost: bool, replace_names: bool) -> Reading:
    """Leaves with 2 where both kinds of records are asked for."""
    from kraft.spark.jobs.reading import Reading

    return Reading(committed=_isolation(committed, uncommitted), skip_lost=skip_lost, replace_names=replace_names)


@app.command()
def ingest(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file or a directory of files.", show_default=False)],
    topic: Annotated[
        str, typer.Option("--topic", "-t", metavar="TOPIC", help="Created if it is not there.", show_default=False)
    ],
    file_format: Annotated[
        FileFormat, typer.Option("--format", "-f", help="Lines of text and JSON stay as they are; rows become JSON.")
    ] = FileFormat.TEXT,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="COLUMN", help="The column that becomes the key.")
    ] = None,
    partitions: Annotated[
        int, typer.Option("--partitions", metavar="N", min=1, help="Of a topic that is created.")
    ] = 1,
    files_per_batch: Annotated[
        int, typer.Option("--files-per-batch", metavar="N", min=1, help="Files in one micro-batch.")
    ] = 100,
    every: Continuous = None,
    dead_letter: Annotated[
        str | None,
        typer.Option("--dead-letter", metavar="TOPIC", help="For lines that are no JSON; without it they end the job."),
    ] = None,
    checkpoint: Checkpoint = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = LOCAL,
    conf: Conf = [],  # noqa: B006
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Send the rows of files to a topic, each once. Run it again for files that have come since."""
    from kraft.spark.jobs.ingest import Ingest
    from kraft.spark.jobs.ingest import ingest as job

    parse_bootstrap(bootstrap)
    if dead_letter is not None and (file_format is not FileFormat.JSON or dead_letter == topic):
        raise typer.BadParameter("--dead-letter is for --format json, and another topic than --topic")
    require_there(path)
    wanted = Ingest(
        path=path,
        topic=topic,
        at=access(bootstrap, command_config),
        format=file_format.value,
        key=key,
        partitions=partitions,
        files_per_batch=files_per_batch,
        checkpoint=checkpoint,
        every_seconds=every,
        dead_letter=dead_letter,
    )
    summary = run(master, conf, quiet, lambda session, say: job(session, wanted, say))
    show_summary(summary, output)


@app.command()
def archive(
    names: Annotated[list[str], typer.Argument(metavar="[TOPIC]... DIRECTORY", show_default=False)],
    pattern: TopicsPattern = None,
    archive_format: Annotated[
        ArchiveFormat, typer.Option("--format", "-f", help="Plain Parquet files, or a Delta table.")
    ] = ArchiveFormat.PARQUET,
    by_hour: Annotated[
        bool, typer.Option("--by-hour", help="Files go by the hour of their records, not the day alone.")
    ] = False,
    records: Annotated[
        int, typer.Option("--records-per-batch", metavar="N", min=1, help="At most so many records in one micro-batch.")
    ] = 1_000_000,
    read_committed: ReadCommitted = False,
    read_uncommitted: ReadUncommitted = False,
    skip_lost: SkipLost = False,
    replace_names: ReplaceNames = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = LOCAL,
    conf: Conf = [],  # noqa: B006
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Write topics to partitioned Parquet files or Delta tables, each record once. Run it again to add what has come
    since; stopped at any point, it goes on. Several topics have a directory each, topic=NAME."""
    from kraft.spark.jobs.archive import Archive, archive_many
    from kraft.spark.jobs.archive import archive as job
    from kraft.spark.jobs.selection import Selection

    parse_bootstrap(bootstrap)
    topics, directory = tuple(dict.fromkeys(names[:-1])), names[-1]
    if bool(topics) == (pattern is not None):
        raise typer.BadParameter("give topics and a directory, or --topics-pattern and a directory")
    check_pattern(pattern)
    if Path(directory).exists() and not Path(directory).is_dir():
        raise typer.BadParameter(f"{directory} is a file", param_hint="DIRECTORY")
    reading = _reading(read_committed, read_uncommitted, skip_lost=skip_lost, replace_names=replace_names)
    at = access(bootstrap, command_config)
    wanted = Archive(
        topic=topics[0] if topics else "",
        directory=directory,
        at=at,
        records_per_batch=records,
        by_hour=by_hour,
        format=archive_format.value,
        reading=reading,
    )

    def do(session: SparkSession, say: Say) -> dict[str, Any]:
        if len(topics) == 1:
            return job(session, wanted, say)
        return archive_many(session, Selection(topics, pattern), wanted, say)

    show_summary(run(master, conf, quiet, do), output)


@app.command()
def compact(
    directory: Annotated[str, typer.Argument(metavar="DIRECTORY", help="Of an archive.", show_default=False)],
    bytes_max: Annotated[
        int, typer.Option("--bytes-max", metavar="N", min=1, help="About the most that becomes one directory.")
    ] = 1 << 30,
    master: Master = LOCAL,
    conf: Conf = [],  # noqa: B006
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Make few large files of the many small ones that `kraft spark archive` wrote. Stopped at any point, the next run
    of either goes on."""
    from kraft.spark.jobs.compact import Compact
    from kraft.spark.jobs.compact import compact as job

    require_there(directory)
    wanted = Compact(directory=directory, bytes_max=bytes_max)
    show_summary(run(master, conf, quiet, lambda session, say: job(session, wanted, say)), output)


def check_pattern(*patterns: str | None) -> None:
    """Leaves with 2 for what is no regular expression."""
    from kraft.common.java_pattern import java_pattern

    try:
        for each in patterns:
            java_pattern(each or "")
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from problem


@app.command()
def mirror(
    target: Annotated[
        str, typer.Option("--to", metavar="HOST:PORT,..", help="Nodes of the cluster to write to.", show_default=False)
    ],
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", show_default=False)] = None,
    pattern: TopicsPattern = None,
    every: Continuous = None,
    groups: GroupsPattern = None,
    target_config: Annotated[
        str | None, typer.Option("--to-command-config", metavar="FILE", help="The same for --to.")
    ] = None,
    target_topic: Annotated[
        str | None, typer.Option("--target-topic", metavar="NAME", help="Its name there; the same without it.")
    ] = None,
    codec: Annotated[
        Codec, typer.Option("--codec", "-z", metavar="CODEC", help="Of batches there: none, gzip, snappy, lz4, zstd.")
    ] = Codec.NONE,
    records: Annotated[
        int, typer.Option("--records-per-batch", metavar="N", min=1, help="At most so many records in one micro-batch.")
    ] = 500_000,
    no_configs: Annotated[
        bool, typer.Option("--no-configs", help="Create the topic with that cluster's defaults, not as this one is.")
    ] = False,
    checkpoint: Checkpoint = None,
    read_committed: ReadCommitted = False,
    read_uncommitted: ReadUncommitted = False,
    skip_lost: SkipLost = False,
    replace_names: ReplaceNames = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = LOCAL,
    conf: Conf = [],  # noqa: B006
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Copy topics to another cluster: same partitions, keys, headers and timestamps, each record once. Run it again
    to copy what has come since."""
    parse_bootstrap(bootstrap), parse_bootstrap(target)
    reading = _reading(read_committed, read_uncommitted, skip_lost=skip_lost, replace_names=replace_names)
    names = tuple(dict.fromkeys(topics or ()))
    if bool(names) == (pattern is not None):
        raise typer.BadParameter("give topics, or --topics-pattern")
    shared: dict[str, Any] = {
        "source": access(bootstrap, command_config),
        "target": access(target, target_config),
        "records_per_batch": records,
        "codec": codec.value,
        "configs": not no_configs,
        "checkpoint": checkpoint,
        "reading": reading,
    }
    if len(names) == 1 and every is None and groups is None:
        show_summary(run(master, conf, quiet, _mirror_one(names[0], target_topic or names[0], shared)), output)
        return
    if target_topic is not None:
        raise typer.BadParameter("--target-topic is for one topic, without --continuous and --groups-pattern")
    show_summary(run(master, conf, quiet, _mirror_many(shared, names, pattern, every, groups)), output)


def _mirror_one(topic: str, target_topic: str, shared: dict[str, Any]) -> Job:
    from kraft.spark.jobs.mirror import Mirror
    from kraft.spark.jobs.mirror import mirror as job

    wanted = Mirror(topic=topic, target_topic=target_topic, **shared)
    return lambda session, say: job(session, wanted, say)


def _mirror_many(
    shared: dict[str, Any], names: tuple[str, ...], pattern: str | None, every: int | None, groups: str | None
) -> Job:
    from kraft.spark.jobs.mirror_many import MirrorMany, mirror_many
    from kraft.spark.jobs.selection import Selection

    check_pattern(pattern, groups)
    wanted = MirrorMany(selection=Selection(names, pattern), every_seconds=every, groups=groups, **shared)
    return lambda session, say: mirror_many(session, wanted, say)


@app.command()
def verify(
    topic: Topic,
    other: Annotated[
        str | None, typer.Option("--with-topic", metavar="NAME", help="The other topic; the same name without it.")
    ] = None,
    other_bootstrap: Annotated[
        str | None, typer.Option("--at", metavar="HOST:PORT,..", help="Nodes of the cluster of the other topic.")
    ] = None,
    other_config: Annotated[
        str | None, typer.Option("--at-command-config", metavar="FILE", help="Client keys for --at.")
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option("--with-archive", metavar="DIRECTORY", help="Compare with what `kraft spark archive` wrote."),
    ] = None,
    ignore_timestamps: Annotated[
        bool, typer.Option("--ignore-timestamps", help="Compare keys, values and headers alone.")
    ] = False,
    read_committed: ReadCommitted = False,
    read_uncommitted: ReadUncommitted = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = LOCAL,
    conf: Conf = [],  # noqa: B006
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Tell whether a topic agrees with another topic or an archive; where not, the first difference of each
    partition. Leaves with 1 if they differ.

    What retention has deleted from one side, or compaction, is left out and counted.
    """
    from kraft.spark.jobs.verify import Verify
    from kraft.spark.jobs.verify import verify as job

    parse_bootstrap(bootstrap), parse_bootstrap(other_bootstrap or bootstrap)
    if (directory is None) == (other is None and other_bootstrap is None):
        raise typer.BadParameter(
            "give --with-topic or --at for a topic, or --with-archive", param_hint="--with-topic / --with-archive"
        )
    if directory is not None:
        require_there(directory)
    wanted = Verify(
        topic=topic,
        at=access(bootstrap, command_config),
        other_topic=other,
        other_at=None if other_bootstrap is None else access(other_bootstrap, other_config),
        archive=directory,
        ignore_timestamps=ignore_timestamps,
        committed=_isolation(read_committed, read_uncommitted) is not False,
    )
    summary = run(master, conf, quiet, lambda session, say: job(session, wanted))
    show(summary, verdict_tables(summary), output)
    if not summary["agree"]:
        raise typer.Exit(FAILED)


def access(bootstrap: str, path: str | None) -> Access:
    """The cluster, by the keys of the file. Leaves with 2 for a file that cannot be used."""
    from kraft.cli.admin.command_config import OPTION, read_client_keys
    from kraft.spark.jobs.access import Access

    if path is None:
        return Access(bootstrap)
    try:
        return Access(bootstrap, read_client_keys(path))
    except ConfigurationError as problem:
        raise typer.BadParameter(str(problem), param_hint=OPTION) from problem


def require_there(path: str) -> None:
    """What a job reads is looked for before Spark is started, which takes seconds. Leaves with 3 if it is not there."""
    if not Path(path).exists():
        sys.stderr.write(f"kraft: {path} does not exist\n")
        raise typer.Exit(NOT_FOUND)


def run(master: str, conf: list[str], quiet: bool, job: Job) -> dict[str, Any]:
    """The summary of a job. What goes wrong is said on stderr and leaves with its exit code."""
    from kraft.spark.jobs.running import JobNotFound
    from kraft.spark.jobs.session import spark_session

    settings = parse_pairs(conf, "--conf")
    begun = time.monotonic()
    try:
        with spark_session(master, settings) as session:
            summary = job(session, Printer(quiet).say)
    except KraftError as problem:
        sys.stderr.write(f"kraft: {problem}\n")
        raise typer.Exit(NOT_FOUND if isinstance(problem, JobNotFound) else FAILED) from problem
    return {**summary, "seconds": round(time.monotonic() - begun, 1)}


class Printer:
    """Says how far a job is, on stderr, whenever that has changed."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.said: Progress | None = None

    def say(self, told: Progress | Notice) -> None:
        from kraft.spark.jobs.running import Notice

        if isinstance(told, Notice):
            if told.is_warning or not self.quiet:
                write(f"warning: {told.text}" if told.is_warning else told.text)
        elif told != self.said:
            if told.batches and not self.quiet:
                lag = "" if told.behind is None else f", {told.behind:,} offsets behind"
                write(f"batch {told.batches}: {told.rows:,} records, {told.rate:,.0f} a second{lag}")
            self.said = told


def write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def verdict_tables(summary: dict[str, Any]) -> list[Table]:
    from kraft.spark.jobs.tally import why

    tables = [facts(summary)]
    if differing := [
        (each["partition"], each["count"], each["offset"], each["other_offset"]) for each in summary["differences"]
    ]:
        tables.append(Table(("PARTITION", "DIFFERENCES", "FIRST-OFFSET", "OTHER-OFFSET"), differing, "differences"))
    if left_out := [
        (each["partition"], each["count"], each["held_by"], each["offset"], why(each)) for each in summary["left_out"]
    ]:
        tables.append(Table(("PARTITION", "LEFT-OUT", "HELD-BY", "FIRST-OFFSET", "WHY"), left_out, "left out"))
    return tables


def facts(summary: dict[str, Any]) -> Table:
    """What of a summary is one value each."""
    from kraft.mirror.topic_configs import shown

    rows = [
        (name.replace("_", " "), shown(value) if isinstance(value, dict) else value)
        for name, value in summary.items()
        if not isinstance(value, list)
    ]
    return Table(("FACT", "VALUE"), rows)


def show_summary(summary: dict[str, Any], output: OutputFormat | None) -> None:
    show(summary, [facts(summary)], output)
