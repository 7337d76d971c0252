"""Write an archive as a Delta table, by the library `deltalake`: each micro-batch is one commit.

The files of a micro-batch's tasks (parquet_files.py) are moved to `<directory>/batch=<number>`, which no reader of the
table sees. Then the driver commits all files together, with Delta's transaction identifier (id of the query, number of
the batch). A crash before the commit leaves files that the next run overwrites. After the commit, the next run finds
the number in the table and skips the batch. The library also rejects a second commit of the same number.

The columns are those of the source and `day`; with `by_hour` also `hour`. The table is partitioned by topic and these.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kraft.spark.decode.rows import spark_schema
from kraft.spark.jobs.dead_letters import DeadLetters, divided
from kraft.spark.jobs.evolution import Evolution
from kraft.spark.jobs.files import literal
from kraft.spark.jobs.job_state import Memory
from kraft.spark.jobs.parquet_files import Layout, put
from kraft.spark.jobs.running import JobFailed

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction
    from pyspark.sql import DataFrame, SparkSession

LOG = "_delta_log"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The null value in a directory name."""


def require_library() -> None:
    """Raise JobFailed if deltalake is not installed."""
    try:
        import deltalake  # noqa: F401
    except ImportError as problem:
        raise JobFailed("Delta tables need deltalake: pip install 'kraft-node[spark,delta]'") from problem


def is_table(directory: Path) -> bool:
    return (directory / LOG).is_dir()


class BatchCommits:
    """Commits a micro-batch to the table, unless the table already has the batch's number. Creates the table before the
    first commit."""

    def __init__(self, place: Path, memory: Memory, layout: Layout, columns: pa.Schema, dead: DeadLetters) -> None:
        self.place, self.memory, self.layout, self.columns, self.dead = place, memory, layout, columns, dead

    def __call__(self, frame: DataFrame, number: int) -> None:
        query: str = json.loads(self.memory.text("metadata"))["id"]
        table = table_at(self.place, list(self.layout.by), self.columns)
        last = table.transaction_version(query)
        if last is not None and last >= number:
            return
        if number != (0 if last is None else last + 1):
            raise JobFailed(
                f"{self.place} lacks micro-batches before {number} that were committed to it: its Delta log was "
                "removed or set back. Give another directory"
            )
        directory = self.place / f"batch={number:08d}"
        files, dead = divided(frame.collect())
        self.dead.write(frame.sparkSession, self.layout, dead)
        write_files(files, self.layout, directory)
        commit(table, query, number, added(self.place, directory))


def table_at(place: Path, by: list[str], columns: pa.Schema) -> DeltaTable:
    """Return the table; create it, with these columns and those of `by`, if it does not exist."""
    from deltalake import DeltaTable, Schema

    if not DeltaTable.is_deltatable(str(place)):
        kinds = {"day": pa.date32(), "hour": pa.int32()}
        fields = [*columns, *[pa.field(each, kinds[each]) for each in by if each in kinds]]
        DeltaTable.create(str(place), Schema.from_arrow(pa.schema(fields)), mode="ignore", partition_by=by)
    return DeltaTable(str(place))


def present_columns(place: Path) -> pa.Schema | None:
    """Return the columns of the table; None if it does not exist."""
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(place)):
        return None
    return pa.schema(
        [pa.field(each.name, plain_type(each.type)) for each in pa.schema(DeltaTable(str(place)).schema())]
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type as the source's rows have it: without the library's large and view types."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, plain_type(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(pa.field("element", plain_type(kind.value_type)))
    if pa.types.is_map(kind):
        value = pa.field("value", plain_type(kind.item_type))
        return pa.map_(pa.field("key", plain_type(kind.key_type), nullable=False), value)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind


def evolved(place: Path, columns: pa.Schema) -> pa.Schema:
    """Return the columns of a run's files: those that the run writes, with all nested fields of the table. Raises
    JobFailed for a change that a Delta table does not allow. The library does not write the table feature
    `typeWidening`."""
    has = present_columns(place)
    if has is None:
        return columns
    found = Evolution(table=f"the Delta table {place}", widens=False, other="give another directory").columns(
        has, pa.schema([pa.field(each.name, plain_type(each.type)) for each in columns])
    )
    return pa.schema([found.field(each) for each in columns.names])


def evolve(place: Path, columns: pa.Schema) -> pa.Schema:
    """Add the columns that the table lacks, in one commit, and return the columns of the run's files. Raises
    JobFailed."""
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import DeltaError

    after, has = evolved(place, columns), present_columns(place)
    if has is None:
        return after
    new = pa.schema([each for each in after if each.name not in has.names or has.field(each.name).type != each.type])
    if new.names:
        try:
            DeltaTable(str(place)).alter.add_columns(Schema.from_arrow(new).fields)
        except DeltaError as problem:
            raise JobFailed(f"the columns {', '.join(new.names)} were not added to {place}: {problem}") from problem
    return after


def write_files(files: list[Any], layout: Layout, directory: Path) -> None:
    """Move the files of a micro-batch's tasks to its directory. Files of an earlier attempt are removed."""
    hidden = Path(layout.staging) / directory.name
    put(files, layout, hidden)
    if directory.exists():
        shutil.rmtree(directory)
    hidden.rename(directory)


def added(place: Path, directory: Path) -> list[AddAction | RemoveAction]:
    """Return the files of a micro-batch as actions of the table's log."""
    from deltalake.transaction import AddAction
    from pyarrow import parquet

    found: list[AddAction | RemoveAction] = []
    for path in sorted(directory.glob("topic=*/day=*/**/*.parquet")):
        parts = (part.split("=", 1) for part in path.relative_to(directory).parts[:-1])
        seen = path.stat()
        found.append(
            AddAction(
                path=str(path.relative_to(place)),
                size=seen.st_size,
                partition_values={name: None if value == NO_VALUE else value for name, value in parts},
                modification_time=int(seen.st_mtime * 1000),
                data_change=True,
                stats=json.dumps({"numRecords": parquet.read_metadata(path).num_rows}),
            )
        )
    return found


def commit(table: DeltaTable, query: str, number: int, files: list[AddAction | RemoveAction]) -> None:
    """Commit all files or none. Raises JobFailed, also if the number was committed since the table was opened."""
    from deltalake import CommitProperties, Transaction
    from deltalake.exceptions import DeltaError

    try:
        table.create_write_transaction(
            files,
            "append",
            table.schema(),
            table.metadata().partition_columns,
            commit_properties=CommitProperties(app_transactions=[Transaction(query, number)]),
        )
    except DeltaError as problem:
        raise JobFailed(f"micro-batch {number} was not committed to {table.table_uri}: {problem}") from problem


def read_table(session: SparkSession, place: Path) -> DataFrame:
    """Return the table's records, without its partition columns. Raises JobFailed for a table whose files alone do not
    define its records."""
    from deltalake import DeltaTable

    require_library()
    table = DeltaTable(str(place))
    features = table.protocol().reader_features
    if features:
        raise JobFailed(f"{place} uses table features that are not supported: {', '.join(sorted(features))}")
    paths = pa.table(table.get_add_actions()).column("path").to_pylist()
    if not paths:
        return session.createDataFrame([], spark_schema(include_headers=True))
    return session.read.option("recursiveFileLookup", "true").parquet(
        *[literal(place / each) for each in sorted(paths)]
    )
