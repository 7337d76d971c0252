"""Iceberg tables by the library `pyiceberg`: the location of a table, its partitions, and the commit of batches.

Each micro-batch is one snapshot. In the same commit, the number of the batch is written to the table's properties,
under the id of the query. A run that finds the number there skips the batch. A commit names its parent snapshot, and
the catalog rejects it if another commit came in between. Before each attempt, the number is looked up again. So a batch
is committed once, even if two attempts overlap.

The library's own retries would not look up the number. They are disabled for the tables that are opened here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kraft.spark.decode.shape import BAD
from kraft.spark.jobs.evolution import OTHER_TABLE, Evolution
from kraft.spark.jobs.running import JobFailed, JobNotFound

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction

QUERY, BATCH = "kraft.query-id", "kraft.batch-id"
"""Keys in the summary of a snapshot. In the table's properties, `kraft.batch-id.<query id>` is the last batch of a
query."""
RETRIES = "commit.retry.num-retries"
NEW_TABLE = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
"""Properties of a table that is created: without them, each micro-batch would add a manifest and a metadata file."""
TRIES = 10
WAIT_SECONDS, WAIT_SECONDS_MAX = 0.1, 5.0
PART = re.compile(r"^(?:(day|hour|month|year|identity)\((\w+)\)|bucket\((\d+),\s*(\w+)\))$")
PARTS = "day(timestamp), hour(timestamp), month(timestamp), identity(topic), identity(partition), bucket(N,partition)"
TIMES = {"hour": "hour", "day": "day", "month": "month", "year": "month"}
DEFAULT_PARTS = ("day(timestamp)", "identity(partition)")
"""The same partitions as those of plain archives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table of a catalog. `properties` are added to those that pyiceberg's configuration files have for `catalog`."""

    table: str
    catalog: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        return f"{self.catalog or 'default'}.{self.table}"


class Part(NamedTuple):
    """A field of a partition spec: the transform in Iceberg's notation, its column, and the field's name."""

    transform: str
    column: str
    name: str

    @property
    def text(self) -> str:
        kind, _, count = self.transform.partition("[")
        return f"bucket({count.rstrip(']')},{self.column})" if count else f"{kind}({self.column})"


def require_library() -> None:
    """Raise JobFailed if pyiceberg is not installed."""
    try:
        import pyiceberg  # noqa: F401
    except ImportError as problem:
        raise JobFailed("Iceberg tables need pyiceberg: pip install 'kraft-node[spark,iceberg]'") from problem


def partition_parts(texts: Sequence[str]) -> tuple[Part, ...]:
    """Parse a partition spec. Raises JobFailed."""
    found: list[Part] = []
    for text in texts:
        match = PART.match(text.strip())
        kind, column = (match[1] or "bucket", match[2] or match[4]) if match else ("", "")
        allowed = {"timestamp"} if kind in TIMES else {"topic", "partition"}
        if match is None or column not in allowed or (kind == "bucket" and not int(match[3])):
            raise JobFailed(f"an archive cannot be partitioned by {text}; supported are {PARTS}")
        if kind == "bucket":
            found.append(Part(f"bucket[{int(match[3])}]", column, f"{column}_bucket"))
        else:
            found.append(Part(kind, column, column if kind == "identity" else f"{column}_{kind}"))
    if len({each.name for each in found}) < len(found):
        raise JobFailed(f"an archive has the same partition field twice: {', '.join(texts)}")
    return tuple(found)


def time_unit(parts: Sequence[Part]) -> str:
    """Return the finest unit of time by which the table is partitioned: `hour`, `day`, `month`; empty if none."""
    units = {TIMES[each.transform] for each in parts if each.transform in TIMES}
    return next((each for each in ("hour", "day", "month") if each in units), "")


def catalog_of(name: TableName) -> Catalog:
    """Connect to the catalog. Raises JobFailed."""
    require_library()
    from pyiceberg.catalog import load_catalog

    try:
        return load_catalog(name.catalog, **name.properties)
    except Exception as problem:
        raise JobFailed(f"the catalog {name.catalog or 'default'} cannot be used: {error_line(problem)}") from problem


def find_table(name: TableName) -> Table | None:
    """Return the table; None if it does not exist. Raises JobFailed."""
    from pyiceberg.exceptions import NoSuchTableError

    catalog = catalog_of(name)
    try:
        return opened(catalog.load_table(name.table))
    except NoSuchTableError:
        return None
    except Exception as problem:
        raise JobFailed(f"the table {name.shown} cannot be opened: {error_line(problem)}") from problem


def require_table(name: TableName) -> Table:
    """Return the table. Raises JobNotFound if it does not exist, JobFailed."""
    require_library()
    found = find_table(name)
    if found is None:
        raise JobNotFound(f"the table {name.shown} does not exist (`kraft spark archive --format iceberg` creates one)")
    return found


def opened(table: Table) -> Table:
    """Return the table without the library's own retries. The changed property is not written to the table."""
    table.metadata.properties[RETRIES] = "0"
    return table


def reloaded(table: Table) -> Table:
    return opened(table.refresh())


def error_line(problem: Exception) -> str:
    """Format an error of a catalog as one line."""
    return " ".join(str(problem).split()) or type(problem).__name__


def ensure_table(name: TableName, columns: pa.Schema, parts: Sequence[Part]) -> Table:
    """Return the table; create it, and its namespace, if it does not exist. Raises JobFailed."""
    from pyiceberg.exceptions import TableAlreadyExistsError

    found = find_table(name)
    if found is not None:
        return found
    catalog = catalog_of(name)
    try:
        catalog.create_namespace_if_not_exists(name.table.rpartition(".")[0])
        with catalog.create_table_transaction(name.table, columns, properties=NEW_TABLE) as transaction:
            with transaction.update_spec() as spec:
                for each in parts:
                    spec.add_field(each.column, each.transform, each.name)
    except TableAlreadyExistsError:
        pass  # By another run, just now.
    except Exception as problem:
        raise JobFailed(f"the table {name.shown} cannot be created: {error_line(problem)}") from problem
    return require_table(name)


def check_table(name: TableName, table: Table, columns: pa.Schema, parts: Sequence[Part]) -> None:
    """Raise JobFailed if the table has other partitions, or columns that cannot become those of the run."""
    has = [(str(each.transform), table.schema().find_column_name(each.source_id)) for each in table.spec().fields]
    if has != [(each.transform, each.column) for each in parts]:
        shown = ", ".join(Part(kind, str(column), "").text for kind, column in has) or "nothing"
        raise JobFailed(
            f"the table {name.shown} is partitioned by {shown}, but this run has "
            f"{', '.join(each.text for each in parts) or 'nothing'}: give the same --partition-by, or another table"
        )
    evolved(name, table, columns)


def evolved(name: TableName, table: Table, columns: pa.Schema) -> pa.Schema:
    """Return the table's columns after a run that writes `columns`, in the Arrow types that Iceberg stores. Raises
    JobFailed if the table is not an archive's, or its columns cannot become those."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    wanted, has = plain(columns), plain(schema_to_pyarrow(table.schema(), include_field_ids=False))
    if missing := [each for each in wanted.names if each not in has.names and each != BAD]:
        raise JobFailed(f"the table {name.shown} has no column {missing[0]}: {OTHER_TABLE}")
    if extra := [each for each in table.schema().fields if each.required and each.name not in wanted.names]:
        raise JobFailed(f"the table {name.shown} needs the column {extra[0].name}, which records do not have")
    return Evolution(table=f"the table {name.shown}").columns(has, wanted)


def evolve_table(name: TableName, table: Table, columns: pa.Schema) -> bool:
    """Add the columns that the table lacks, and widen types, in one commit. Present columns keep their ids. Returns
    whether anything was changed. Raises JobFailed."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    def stage(transaction: Transaction) -> bool:
        after = evolved(name, table, columns)
        if after == plain(schema_to_pyarrow(table.schema(), include_field_ids=False)):
            return False
        with transaction.update_schema() as update:
            update.union_by_name(after)
        return True

    return committed(table, "the new columns", stage)


def plain(schema: pa.Schema) -> pa.Schema:
    """Return the columns in the Arrow types that Iceberg stores, so that they can be compared."""
    import pyarrow as pa

    return pa.schema([pa.field(each.name, plain_type(each.type)) for each in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, plain_type(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(pa.field("element", plain_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_int8(kind) or pa.types.is_int16(kind):
        return pa.int32()
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


def last_batch(table: Table, query: str) -> int | None:
    """Return the number of the last micro-batch of a query in the table. Raises JobFailed if the table was rolled back
    to an earlier snapshot."""
    from pyiceberg.table.snapshots import ancestors_of

    kept = table.metadata.properties.get(f"{BATCH}.{query}")
    for each in ancestors_of(table.current_snapshot(), table.metadata):
        if each.summary is not None and each.summary.additional_properties.get(QUERY) == query:
            seen = int(each.summary.additional_properties[BATCH])
            if kept is not None and int(kept) > seen:
                raise JobFailed(
                    f"the table {'.'.join(table.name())} was set back from micro-batch {kept} to {seen}: "
                    "give another table and checkpoint, or restore the newer snapshot"
                )
            return seen
    return None if kept is None else int(kept)


def is_next(table: Table, query: str, number: int) -> bool:
    """Whether the micro-batch is the next one; False if the table already has it. Raises JobFailed if the table lacks
    earlier micro-batches."""
    last = last_batch(table, query)
    if last is not None and last >= number:
        return False
    if number != (0 if last is None else last + 1):
        raise JobFailed(
            f"the table {'.'.join(table.name())} lacks micro-batches before {number} that were committed to it: it was "
            "removed and recreated, or set back. Give another table and checkpoint"
        )
    return True


def commit_batch(table: Table, query: str, number: int, files: Sequence[DataFile]) -> bool:
    """Commit a micro-batch. Returns True if this call has committed it, False if the table already has it. Raises
    JobFailed."""

    def stage(transaction: Transaction) -> bool:
        if not is_next(table, query, number):
            return False
        update = transaction.update_snapshot({QUERY: query, BATCH: str(number)})
        is_merged = table.metadata.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
        with update.merge_append() if is_merged else update.fast_append() as append:
            for each in files:
                append.append_data_file(each)
        transaction.set_properties({f"{BATCH}.{query}": str(number)})
        return True

    return committed(table, f"micro-batch {number}", stage)


def committed(table: Table, what: str, stage: Callable[[Transaction], bool]) -> bool:
    """Stage changes and commit them. If another writer has committed in between, or the catalog did not respond, the
    table is read again and the changes are staged again. `stage` returns whether there is anything to commit. Raises
    JobFailed."""
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, RESTError

    wait = WAIT_SECONDS
    for left in reversed(range(TRIES)):
        try:
            transaction = table.transaction()
            if not stage(transaction):
                return False
            transaction.commit_transaction()
        except JobFailed:
            raise
        except (CommitFailedException, CommitStateUnknownException, RESTError, OSError) as problem:
            if not left:
                raise JobFailed(
                    f"{what} was not committed to {'.'.join(table.name())} in {TRIES} tries: {error_line(problem)}"
                ) from problem
            time.sleep(wait)
            wait = min(2 * wait, WAIT_SECONDS_MAX)
            reload_after(table, problem)
        except Exception as problem:
            raise JobFailed(f"{what} was not committed to {'.'.join(table.name())}: {error_line(problem)}") from problem
        else:
            opened(table)
            return True
    raise AssertionError("the last try returns or raises")


def reload_after(table: Table, problem: Exception) -> None:
    try:
        reloaded(table)
    except Exception as second:
        raise JobFailed(
            f"the table {'.'.join(table.name())} cannot be read after a failed commit: {error_line(problem)}"
        ) from second
