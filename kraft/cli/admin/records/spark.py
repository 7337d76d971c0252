"""`kraft spark`: pipelines over topics, run by Spark on this machine or on your cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kraft.cli.admin.offset_reset import parse_duration
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, Bootstrap, Codec, Output, OutputFormat, parse_bootstrap
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.records.spark_options import (
    LOCAL,
    NO_TABLE,
    TABLE,
    ArchiveFormat,
    Bad,
    BadTopic,
    BytesPerBatch,
    Checkpoint,
    CommandConfig,
    Conf,
    Continuous,
    DeadLetter,
    DryRun,
    FileFormat,
    FilesPerBatch,
    GroupsPattern,
    Master,
    MetricsPort,
    PartitionBy,
    Quiet,
    ReadCommitted,
    ReadUncommitted,
    ReplaceNames,
    SkipLost,
    TableOptions,
    Topic,
    TopicsPattern,
    ValueForm,
    ValueSchema,
    access,
    check_pattern,
    isolation,
    parts_of,
    reading_of,
    require_there,
    serving_of,
    typed_of,
    with_table,
)
from kraft.cli.admin.records.spark_running import Steps, run, run_here
from kraft.cli.admin.running import FAILED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft.spark.jobs.iceberg import TableName
    from kraft.spark.jobs.running import Say

OLDER_THAN = "--expire-snapshots-older-than"
app = typer.Typer(
    help="Spark jobs: files to a topic, a topic to Parquet, cluster to cluster, and verification.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def ingest(
    path: Annotated[str, typer.Argument(metavar="PATH", help="File, or directory of files.", show_default=False)],
    topic: Annotated[
        str,
        typer.Option("--topic", "-t", metavar="TOPIC", help="Target topic, created if missing.", show_default=False),
    ],
    file_format: Annotated[
        FileFormat, typer.Option("--format", "-f", help="Text and JSON lines are sent unchanged, rows as JSON.")
    ] = FileFormat.TEXT,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="COLUMN", help="Column for the key.")] = None,
    partitions: Annotated[
        int, typer.Option("--partitions", metavar="N", min=1, help="Partitions of a created topic.")
    ] = 1,
    bytes_per_batch: BytesPerBatch = 64 << 20,
    files_per_batch: FilesPerBatch = 100,
    every: Continuous = None,
    dead_letter: DeadLetter = None,
    checkpoint: Checkpoint = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = LOCAL,
    conf: Conf = [],  # noqa: B006
    metrics_port: MetricsPort = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Send the rows of files to a topic, each once. Run it again for new files."""
    from kraft.spark.jobs.ingest import Ingest, check_ingest
    from kraft.spark.jobs.ingest import ingest as job
    from kraft.spark.jobs.plans import plan_ingest

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
        bytes_per_batch=bytes_per_batch,
        files_per_batch=files_per_batch,
        checkpoint=checkpoint,
        every_seconds=every,
        dead_letter=dead_letter,
    )
    steps = Steps(
        partial(check_ingest, wanted),
        lambda session, say: job(session, wanted, say),
        partial(plan_ingest, wanted),
    )
    serving = serving_of("ingest", metrics_port)
    show_summary(run(master, conf, quiet, steps, dry_run=dry_run, serving=serving), output)


@app.command()
@with_table
def archive(
    names: Annotated[list[str], typer.Argument(metavar="[TOPIC]... [DIRECTORY]", show_default=False)] = [],  # noqa: B006
    pattern: TopicsPattern = None,
    archive_format: Annotated[
        ArchiveFormat, typer.Option("--format", "-f", help="Plain Parquet files, a Delta table, or an Iceberg table.")
    ] = ArchiveFormat.PARQUET,
    by_hour: Annotated[
        bool, typer.Option("--by-hour", help="Partition directories by hour instead of by day.")
    ] = False,
    to: TableOptions = NO_TABLE,
    partition_by: PartitionBy = [],  # noqa: B006
    checkpoint: Checkpoint = None,
    value_format: ValueForm = None,
    value_schema: ValueSchema = None,
    bad_records: Bad = None,
    dead_letter: BadTopic = None,
    records: Annotated[
        int, typer.Option("--records-per-batch", metavar="N", min=1, help="Most records of a micro-batch.")
    ] = 1_000_000,
    read_committed: ReadCommitted = False,
    read_uncommitted: ReadUncommitted = False,
    skip_lost: SkipLost = False,
    replace_names: ReplaceNames = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = LOCAL,
    conf: Conf = [],  # noqa: B006
    metrics_port: MetricsPort = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Write topics to partitioned Parquet files, Delta tables or an Iceberg table, each record once. Run it again to
    add later records; an interrupted run is continued. Several topics have a directory each, topic=NAME. An Iceberg
    table (--format iceberg --table, without a directory) gets all of them."""
    parse_bootstrap(bootstrap)
    check_pattern(pattern)
    shared: dict[str, Any] = {
        "at": access(bootstrap, command_config),
        "records_per_batch": records,
        "reading": reading_of(read_committed, read_uncommitted, skip_lost=skip_lost, replace_names=replace_names),
        "typed": typed_of(value_format, value_schema, bad_records, dead_letter),
    }
    name = to.name
    if archive_format is ArchiveFormat.ICEBERG:
        by = parts_of(partition_by, by_hour=by_hour)
        steps = _archive_table(names, pattern, name, {**shared, "by": by, "checkpoint": checkpoint})
    elif name is not None or partition_by or checkpoint is not None:
        raise typer.BadParameter("--table, --partition-by and --checkpoint are for --format iceberg")
    else:
        steps = _archive_files(names, pattern, {**shared, "by_hour": by_hour, "format": archive_format.value})
    serving = serving_of("archive", metrics_port)
    show_summary(run(master, conf, quiet, steps, dry_run=dry_run, serving=serving), output)


def _archive_files(names: list[str], pattern: str | None, shared: dict[str, Any]) -> Steps:
    from kraft.spark.jobs.archive import Archive, archive_many, check_archive
    from kraft.spark.jobs.archive import archive as job
    from kraft.spark.jobs.plans import plan_archive
    from kraft.spark.jobs.selection import Selection

    topics, directory = tuple(dict.fromkeys(names[:-1])), names[-1] if names else ""
    if not names or bool(topics) == (pattern is not None):
        raise typer.BadParameter("give topics and a directory, or --topics-pattern and a directory")
    if Path(directory).exists() and not Path(directory).is_dir():
        raise typer.BadParameter(f"{directory} is a file", param_hint="DIRECTORY")
    wanted = Archive(topic=topics[0] if topics else "", directory=directory, **shared)
    selection = Selection(topics, pattern)

    def do(session: SparkSession, say: Say) -> dict[str, Any]:
        return job(session, wanted, say) if len(topics) == 1 else archive_many(session, selection, wanted, say)

    return Steps(partial(check_archive, wanted, selection), do, partial(plan_archive, wanted, selection))


def _archive_table(names: list[str], pattern: str | None, to: TableName | None, shared: dict[str, Any]) -> Steps:
    from kraft.spark.jobs.archive_table import TableArchive, archive_tables, check_archive_table
    from kraft.spark.jobs.plans import plan_archive_table
    from kraft.spark.jobs.selection import Selection

    topics = tuple(dict.fromkeys(names))
    if to is None or bool(topics) == (pattern is not None):
        raise typer.BadParameter("an Iceberg table needs --table, and topics or --topics-pattern, without a directory")
    wanted, selection = TableArchive(topic="", table=to, **shared), Selection(topics, pattern)
    return Steps(
        partial(check_archive_table, wanted, selection),
        lambda session, say: archive_tables(session, selection, wanted, say),
        partial(plan_archive_table, wanted, selection),
    )


@app.command()
@with_table
def compact(
    directory: Annotated[
        str | None, typer.Argument(metavar="[DIRECTORY]", help="Directory of an archive.", show_default=False)
    ] = None,
    to: TableOptions = NO_TABLE,
    bytes_max: Annotated[
        int, typer.Option("--bytes-max", metavar="N", min=1, help="Approximate size limit of a directory or file.")
    ] = 1 << 30,
    master: Master = LOCAL,
    conf: Conf = [],  # noqa: B006
    metrics_port: MetricsPort = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Rewrite the many small files of `kraft spark archive`, in a directory or an Iceberg table, as few large ones. The
    next run of either command, archive or compact, completes an interrupted run."""
    name = to.name
    if (directory is None) == (name is None):
        raise typer.BadParameter("give a directory, or --table for an Iceberg table", param_hint="DIRECTORY / --table")
    steps = _compact_table(name, bytes_max) if name is not None else _compact_files(str(directory), bytes_max)
    serving = serving_of("compact", metrics_port)
    show_summary(run(master, conf, quiet, steps, dry_run=dry_run, serving=serving), output)


def _compact_files(directory: str, bytes_max: int) -> Steps:
    from kraft.spark.jobs.compact import Compact, check_compact
    from kraft.spark.jobs.compact import compact as job
    from kraft.spark.jobs.plans import plan_compact

    require_there(directory)
    wanted = Compact(directory=directory, bytes_max=bytes_max)
    return Steps(
        partial(check_compact, wanted),
        lambda session, say: job(session, wanted, say),
        partial(plan_compact, wanted),
    )


def _compact_table(to: TableName, bytes_max: int) -> Steps:
    from kraft.spark.jobs.maintain import CompactTable, check_compact_table, compact_table, plan_compact_table

    wanted = CompactTable(table=to, bytes_max=bytes_max)
    return Steps(
        partial(check_compact_table, wanted),
        lambda session, say: compact_table(session, wanted, say),
        partial(plan_compact_table, wanted),
    )


@app.command()
@with_table
def maintain(
    older_than: Annotated[
        str,
        typer.Option(OLDER_THAN, metavar="AGE", help="Age, such as 7d or 12h. The current snapshot is always kept."),
    ],
    to: TableOptions = NO_TABLE,
    metrics_port: MetricsPort = None,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Expire old snapshots of an Iceberg table, and remove the files that no other snapshot has. Without Spark."""
    from kraft.spark.jobs.maintain import Maintain, plan_maintain
    from kraft.spark.jobs.maintain import maintain as job

    name = to.name
    if name is None:
        raise typer.BadParameter("name the Iceberg table to maintain", param_hint=TABLE)
    keep = timedelta(milliseconds=parse_duration(older_than, OLDER_THAN))
    wanted, now = Maintain(table=name, keep=keep), datetime.now(UTC)
    deed = (lambda say: plan_maintain(wanted, now)) if dry_run else partial(job, wanted, now)
    show_summary(run_here(deed, serving_of("maintain", metrics_port)), output)


@app.command()
def mirror(
    target: Annotated[
        str, typer.Option("--to", metavar="HOST:PORT,..", help="Addresses of the target cluster.", show_default=False)
    ],
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", show_default=False)] = None,
    pattern: TopicsPattern = None,
    every: Continuous = None,
    groups: GroupsPattern = None,
    target_config: Annotated[
        str | None, typer.Option("--to-command-config", metavar="FILE", help="Kafka client keys for --to.")
    ] = None,
    target_topic: Annotated[
        str | None, typer.Option("--target-topic", metavar="NAME", help="Target topic. (default: same name)")
    ] = None,
    codec: Annotated[
        Codec, typer.Option("--codec", "-z", metavar="CODEC", help="Compression: none, gzip, snappy, lz4 or zstd.")
    ] = Codec.NONE,
    records: Annotated[
        int, typer.Option("--records-per-batch", metavar="N", min=1, help="Most records of a micro-batch.")
    ] = 500_000,
    no_configs: Annotated[
        bool, typer.Option("--no-configs", help="Create the topic with the target's default configuration.")
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
    metrics_port: MetricsPort = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Copy topics to another cluster: same partitions, keys, headers and timestamps, each record once. Run it again to
    copy later records."""
    parse_bootstrap(bootstrap), parse_bootstrap(target)
    reading = reading_of(read_committed, read_uncommitted, skip_lost=skip_lost, replace_names=replace_names)
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
        steps = _mirror_one(names[0], target_topic or names[0], shared)
    elif target_topic is not None:
        raise typer.BadParameter("--target-topic is for one topic, without --continuous and --groups-pattern")
    else:
        steps = _mirror_many(shared, names, pattern, every, groups)
    serving = serving_of("mirror", metrics_port)
    show_summary(run(master, conf, quiet, steps, dry_run=dry_run, serving=serving), output)


def _mirror_one(topic: str, target_topic: str, shared: dict[str, Any]) -> Steps:
    from kraft.spark.jobs.mirror import Mirror, check_mirror
    from kraft.spark.jobs.mirror import mirror as job
    from kraft.spark.jobs.plans import plan_mirror

    wanted = Mirror(topic=topic, target_topic=target_topic, **shared)
    return Steps(
        partial(check_mirror, wanted),
        lambda session, say: job(session, wanted, say),
        partial(plan_mirror, wanted),
    )


def _mirror_many(
    shared: dict[str, Any], names: tuple[str, ...], pattern: str | None, every: int | None, groups: str | None
) -> Steps:
    from kraft.spark.jobs.mirror_many import MirrorMany, check_mirror_many, mirror_many
    from kraft.spark.jobs.plans import plan_mirror_many
    from kraft.spark.jobs.selection import Selection

    check_pattern(pattern, groups)
    wanted = MirrorMany(selection=Selection(names, pattern), every_seconds=every, groups=groups, **shared)
    return Steps(
        partial(check_mirror_many, wanted),
        lambda session, say: mirror_many(session, wanted, say),
        partial(plan_mirror_many, wanted),
    )


@app.command()
@with_table
def verify(
    topic: Topic,
    other: Annotated[
        str | None, typer.Option("--with-topic", metavar="NAME", help="Other topic. (default: same name)")
    ] = None,
    other_bootstrap: Annotated[
        str | None, typer.Option("--at", metavar="HOST:PORT,..", help="Addresses of the other topic's cluster.")
    ] = None,
    other_config: Annotated[
        str | None, typer.Option("--at-command-config", metavar="FILE", help="Kafka client keys for --at.")
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option("--with-archive", metavar="DIRECTORY", help="Compare with an archive of `kraft spark archive`."),
    ] = None,
    to: TableOptions = NO_TABLE,
    ignore_timestamps: Annotated[
        bool, typer.Option("--ignore-timestamps", help="Compare keys, values and headers, but not timestamps.")
    ] = False,
    read_committed: ReadCommitted = False,
    read_uncommitted: ReadUncommitted = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = LOCAL,
    conf: Conf = [],  # noqa: B006
    metrics_port: MetricsPort = None,
    quiet: Quiet = False,
    output: Output = None,
) -> None:
    """Compare a topic with another topic or an archive, and show the first difference of each partition. Exits with 1
    if they differ.

    Records that retention or compaction has deleted from one side are left out and counted.
    """
    from kraft.spark.jobs.verify import Verify, check_verify
    from kraft.spark.jobs.verify import verify as job

    parse_bootstrap(bootstrap), parse_bootstrap(other_bootstrap or bootstrap)
    name = to.name
    if [directory is None, name is None, other is None and other_bootstrap is None].count(False) != 1:
        raise typer.BadParameter(
            "give --with-topic or --at for a topic, or --with-archive, or --table",
            param_hint="--with-topic / --with-archive / --table",
        )
    if directory is not None:
        require_there(directory)
    wanted = Verify(
        topic=topic,
        at=access(bootstrap, command_config),
        other_topic=other,
        other_at=None if other_bootstrap is None else access(other_bootstrap, other_config),
        archive=directory,
        table=name,
        ignore_timestamps=ignore_timestamps,
        committed=isolation(read_committed, read_uncommitted) is not False,
    )
    steps = Steps(lambda _: check_verify(wanted), lambda session, say: job(session, wanted, say), lambda _: {})
    summary = run(master, conf, quiet, steps, serving=serving_of("verify", metrics_port))
    show(summary, verdict_tables(summary), output)
    if not summary["agree"]:
        raise typer.Exit(FAILED)


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
    """The single values of a summary."""
    from kraft.mirror.topic_configs import shown

    rows = [
        (name.replace("_", " "), shown(value) if isinstance(value, dict) else value)
        for name, value in summary.items()
        if not isinstance(value, list)
    ]
    return Table(("FACT", "VALUE"), rows)


def show_summary(summary: dict[str, Any], output: OutputFormat | None) -> None:
    show(summary, [facts(summary)], output)
