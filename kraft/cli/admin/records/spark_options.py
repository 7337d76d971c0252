"""The options of `kraft spark`, and their conversion to settings of jobs."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from kraft.cli.admin.options import parse_pairs
from kraft.cli.admin.running import NOT_FOUND
from kraft.common.errors import ConfigurationError

if TYPE_CHECKING:
    from kraft.cli.admin.records.spark_running import Serving
    from kraft.spark.jobs.access import Access
    from kraft.spark.jobs.archive import Typed
    from kraft.spark.jobs.iceberg import TableName
    from kraft.spark.jobs.reading import Reading


METRICS_PORT = "--metrics-port"


class FileFormat(StrEnum):
    AVRO = "avro"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"
    PARQUET = "parquet"
    TEXT = "text"


class BadRecords(StrEnum):
    COLUMN = "column"
    FAIL = "fail"
    NULL = "null"


class ValueFormat(StrEnum):
    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"


class ArchiveFormat(StrEnum):
    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"


ValueForm = Annotated[
    ValueFormat | None,
    typer.Option("--value-format", help="Format of values. Their fields become columns of `value`."),
]
ValueSchema = Annotated[
    str | None, typer.Option("--value-schema", metavar="SCHEMA", help="Schema of the values: DDL, or a JSON schema.")
]
Bad = Annotated[
    BadRecords | None,
    typer.Option(
        "--bad-records",
        help=(
            "Values that do not match the schema: fail ends the job, null replaces them, column moves them to the "
            "column _bad."
        ),
    ),
]
PartitionBy = Annotated[
    list[str],
    typer.Option(
        "--partition-by",
        metavar="PART",
        help=(
            "Partitioning of an Iceberg table: day, hour or month(timestamp), identity(topic), "
            "identity(partition), bucket(N,partition). Repeatable. (default: day(timestamp) identity(partition))"
        ),
    ),
]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
Master = Annotated[
    str,
    typer.Option("--master", metavar="URL", envvar="KRAFT_SPARK_MASTER", help="Spark master, as for spark-submit."),
]
Conf = Annotated[list[str], typer.Option("--conf", metavar="KEY=VALUE", help="Spark configuration. Repeatable.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Directory for the job's progress. (default: one below ~/.local/state/kraft/spark)",
    ),
]
CommandConfig = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="KRAFT_COMMAND_CONFIG",
        help=(
            "File with Kafka's client keys for --bootstrap-server: security.protocol, sasl.jaas.config, "
            "ssl.truststore.location ..."
        ),
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
ReadCommitted = Annotated[bool, typer.Option("--read-committed", hidden=True)]
"""Hidden, because it is the default, except for checkpoints of earlier versions, which keep the choice of their first
run."""
ReadUncommitted = Annotated[
    bool,
    typer.Option(
        "--read-uncommitted",
        help=(
            "Read records of aborted and open transactions, too. By default they are skipped. A job that is "
            "resumed keeps the choice of its first run."
        ),
    ),
]
SkipLost = Annotated[
    bool,
    typer.Option("--skip-lost", help="Continue, with a warning, if records were deleted before the job read them."),
]
ReplaceNames = Annotated[
    bool,
    typer.Option("--replace-header-names", help="Replace bytes of header names that are not UTF-8, as Java does."),
]
TopicsPattern = Annotated[
    str | None,
    typer.Option(
        "--topics-pattern", metavar="REGEX", help="Every topic whose whole name matches, also topics created later."
    ),
]
Continuous = Annotated[
    int | None,
    typer.Option(
        "--continuous", metavar="SECONDS", min=1, help="Run until stopped, and look for new data every SECONDS."
    ),
]
GroupsPattern = Annotated[
    str | None,
    typer.Option(
        "--groups-pattern",
        metavar="REGEX",
        help="Translate the offsets of these consumer groups, and commit them in the target cluster.",
    ),
]
MetricsPort = Annotated[
    str | None,
    typer.Option(
        METRICS_PORT,
        metavar="[HOST:]PORT",
        help=(
            "Serve the job's metrics for Prometheus at /metrics until it ends. (default host: 127.0.0.1; port 0: "
            "any free port)"
        ),
    ),
]
BadTopic = Annotated[
    str | None,
    typer.Option(
        "--dead-letter",
        metavar="TOPIC",
        help="Topic for records whose values do not match the schema, with the reason. They are not archived.",
    ),
]
TABLE = "--table"
LOCAL = "local[*]"
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, print what would be done, and write nothing.")
]
BytesPerBatch = Annotated[
    int,
    typer.Option(
        "--bytes-per-batch",
        metavar="N",
        min=1,
        help=(
            "Most bytes of files in a micro-batch, which is one transaction. A job that is killed loses at most "
            "one. A larger file has a micro-batch of its own."
        ),
    ),
]
FilesPerBatch = Annotated[
    int, typer.Option("--files-per-batch", metavar="N", min=1, help="Most files of a micro-batch.")
]
DeadLetter = Annotated[
    str | None,
    typer.Option(
        "--dead-letter", metavar="TOPIC", help="Topic for lines that are not JSON. Without it they end the job."
    ),
]


def isolation(committed: bool, uncommitted: bool) -> bool | None:
    """Whether only committed records are read. None selects the checkpoint's choice, or the default in a first run."""
    if committed and uncommitted:
        raise typer.BadParameter("--read-committed and --read-uncommitted exclude each other")
    return False if uncommitted else True if committed else None


def reading_of(committed: bool, uncommitted: bool, *, skip_lost: bool, replace_names: bool) -> Reading:
    """The settings of a read. Exits with 2 if the options exclude each other."""
    from kraft.spark.jobs.reading import Reading

    return Reading(committed=isolation(committed, uncommitted), skip_lost=skip_lost, replace_names=replace_names)


def typed_of(
    form: ValueFormat | None, schema: str | None, bad_records: BadRecords | None, dead_letter: str | None
) -> Typed | None:
    """Return how values are decoded; None if they are not. Exits with 2 if an option needs another one."""
    from kraft.spark.jobs.archive import Typed

    if (form is None) != (schema is None) or (bad_records is not None and form is None):
        raise typer.BadParameter("--value-format and --value-schema go together, and --bad-records needs both")
    if dead_letter is not None and (form is None or bad_records is not None):
        raise typer.BadParameter("--dead-letter needs --value-format, and excludes --bad-records")
    if form is None or schema is None:
        return None
    bad = (bad_records or BadRecords.FAIL).value
    return Typed(schema=schema, format=form.value, bad_records=bad, dead_letter=dead_letter)


class TableOptions(NamedTuple):
    """The options that name an Iceberg table. A command with a parameter of this type is declared by `with_table`."""

    table: str | None
    catalog: str | None
    properties: tuple[str, ...]

    @property
    def name(self) -> TableName | None:
        """Return the table that is named; None if none is. Exits with 2 if an option needs another one."""
        from kraft.spark.jobs.iceberg import TableName

        if self.table is None:
            if self.catalog is not None or self.properties:
                raise typer.BadParameter("--catalog and --catalog-property need --table")
            return None
        if not all(self.table.split(".")) or "." not in self.table:
            raise typer.BadParameter(f"{self.table} is not of the form NAMESPACE.NAME", param_hint=TABLE)
        properties = parse_pairs(list(self.properties), "--catalog-property")
        return TableName(table=self.table, catalog=self.catalog, properties=properties)


NO_TABLE: Final = TableOptions(None, None, ())
OPTIONS_OF_TABLES: Final[dict[str, tuple[Any, Any]]] = {
    "table": (
        Annotated[str | None, typer.Option(TABLE, metavar="NAMESPACE.NAME", help="Iceberg table.", show_default=False)],
        None,
    ),
    "catalog": (
        Annotated[
            str | None,
            typer.Option("--catalog", metavar="NAME", help="Catalog of the table, as named in ~/.pyiceberg.yaml."),
        ],
        None,
    ),
    "catalog_property": (
        Annotated[
            list[str],
            typer.Option(
                "--catalog-property",
                metavar="KEY=VALUE",
                help="Property of the catalog (type, uri, warehouse, ...). Repeatable.",
            ),
        ],
        [],
    ),
}
"""The annotations and defaults of the options that every command with an Iceberg table has."""


def with_table(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of an Iceberg table, in the place of its parameter of the type TableOptions."""
    own = inspect.signature(command, eval_str=True)
    (place,) = [each.name for each in own.parameters.values() if each.annotation is TableOptions]

    @functools.wraps(command)
    def whole(table: str | None, catalog: str | None, catalog_property: list[str], **others: Any) -> None:
        command(**others, **{place: TableOptions(table, catalog, tuple(catalog_property))})

    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in OPTIONS_OF_TABLES.items()
    ]
    parameters = []
    for each in own.parameters.values():
        parameters += options if each.name == place else [each.replace(kind=kind)]
    whole.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    whole.__annotations__ = {each.name: each.annotation for each in parameters}
    return whole


def parts_of(given: list[str], *, by_hour: bool) -> tuple[str, ...]:
    """Return the partition spec of an Iceberg table. Exits with 2 for an invalid spec."""
    from kraft.spark.jobs.iceberg import DEFAULT_PARTS, partition_parts
    from kraft.spark.jobs.running import JobFailed

    if given and by_hour:
        raise typer.BadParameter("--by-hour and --partition-by exclude each other")
    by = tuple(given) or (("hour(timestamp)", *DEFAULT_PARTS[1:]) if by_hour else DEFAULT_PARTS)
    try:
        return tuple(each.text for each in partition_parts(by))
    except JobFailed as problem:
        raise typer.BadParameter(str(problem), param_hint="--partition-by") from problem


def access(bootstrap: str, path: str | None) -> Access:
    """The access to the cluster, with the keys of the file. Exits with 2 for an invalid file."""
    from kraft.cli.admin.command_config import OPTION, read_client_keys
    from kraft.spark.jobs.access import Access

    if path is None:
        return Access(bootstrap)
    try:
        return Access(bootstrap, read_client_keys(path))
    except ConfigurationError as problem:
        raise typer.BadParameter(str(problem), param_hint=OPTION) from problem


def serving_of(command: str, given: str | None) -> Serving:
    """Return the address at which the metrics of a command are served. Exits with 2 for an invalid port or address."""
    from kraft.cli.admin.records.spark_running import Serving
    from kraft.common.config.endpoints import parse_address

    if given is None:
        return Serving(command)
    try:
        return Serving(command, parse_address(f"127.0.0.1:{given}" if given.isdecimal() else given))
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint=METRICS_PORT) from problem


def require_there(path: str) -> None:
    """Check that the job's input exists before Spark is started, which takes seconds. Exits with 3 if it does not."""
    if not Path(path).exists():
        sys.stderr.write(f"kraft: {path} does not exist\n")
        raise typer.Exit(NOT_FOUND)


def check_pattern(*patterns: str | None) -> None:
    """Check regular expressions. Exits with 2 for an invalid one."""
    from kraft.common.java_pattern import java_pattern

    try:
        for each in patterns:
            java_pattern(each or "")
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from problem
