"""The records of an Iceberg table as one side of a comparison: as a reader of the table sees them, with deletes and
changes of its schema applied."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kraft.spark.decode.rows import arrow_schema, spark_schema
from kraft.spark.jobs.digests import RANGE, Prints, RangeDigest, prints
from kraft.spark.jobs.iceberg import TableName, plain, require_table, shown_type, told
from kraft.spark.jobs.iceberg_files import access_of
from kraft.spark.jobs.running import JobFailed

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from kraft.spark.jobs.digesting import Compare

COLUMNS = ("key", "value", "headers", "timestamp", "offset")
ROWS = arrow_schema(include_headers=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """The records of one partition of a topic in one data file, limited to offsets `[start, end)` if they are given.
    `file` is a pickled FileScanTask."""

    metadata: str
    access: Mapping[str, str]
    file: bytes
    topic: str
    partition: int
    offsets: tuple[int, int] | None = None

    def prints(self, how: Compare) -> Iterator[Prints]:
        for batch in self.rows(COLUMNS):
            offsets = batch.column("offset").to_numpy()
            yield Prints(offsets, offsets, prints(batch, offsets, how.key, timestamps=how.timestamps))

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions.parser import parse
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.table import StaticTable

        table = StaticTable.from_metadata(self.metadata, dict(self.access))
        wanted = f"topic == '{self.topic}' and partition == {self.partition}"
        if self.offsets is not None:
            wanted += f" and offset >= {self.offsets[0]} and offset < {self.offsets[1]}"
        scan = ArrowScan(table.metadata, table.io, table.schema().select(*columns), parse(wanted))
        types = pa.schema([ROWS.field(each) for each in columns])
        for batch in scan.to_record_batches([pickle.loads(self.file)]):
            yield from pa.Table.from_batches([batch]).select(list(columns)).cast(types).combine_chunks().to_batches()

    def around(self, found: Sequence[RangeDigest]) -> TablePart:
        """Return the part narrowed to these ranges."""
        numbers = [each.number for each in found]
        return replace(self, offsets=(min(numbers) * RANGE, (max(numbers) + 1) * RANGE))


def require_archive(name: TableName) -> Table:
    """Return a table that can be compared with a topic. Raises JobNotFound, JobFailed."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    table = require_table(name)
    has, wanted = plain(schema_to_pyarrow(table.schema(), include_field_ids=False)), plain(ROWS)
    for each in COLUMNS:
        if each not in has.names:
            raise JobFailed(f"the table {name.shown} is no archive of a topic: it has no column {each}")
        if has.field(each).type != wanted.field(each).type:
            raise JobFailed(
                f"the table {name.shown} has typed values, not the bytes of the topic (the column {each} is "
                f"{shown_type(has.field(each).type)}): it cannot be compared with the topic"
            )
    return table


def table_parts(name: TableName, topic: str) -> list[TablePart]:
    """Return the records of a topic in the table's present snapshot. Raises JobNotFound, JobFailed."""
    table = require_archive(name)
    try:
        files = list(table.scan(f"topic == '{topic}'").plan_files())
    except Exception as problem:
        raise JobFailed(f"the table {name.shown} cannot be read: {told(problem)}") from problem
    access = access_of(table)
    return [
        TablePart(
            metadata=table.metadata_location,
            access=access,
            file=pickle.dumps(each),
            topic=topic,
            partition=partition,
        )
        for each in files
        for partition in partitions_in(table, each.file)
    ]


def partitions_in(table: Table, file: DataFile) -> range:
    """Return the partitions that a file may have records of. Raises JobFailed if its statistics do not tell."""
    found = bounds(table, file, "partition")
    if found is None:
        raise JobFailed(f"{file.file_path} has no statistics of the column partition: rewrite the table's files")
    return range(found[0], found[1] + 1)


def bounds(table: Table, file: DataFile, column: str) -> tuple[Any, Any] | None:
    """Return the lowest and highest value of a column in a file; None without statistics."""
    from pyiceberg.conversions import from_bytes

    field = table.schema().find_field(column)
    low, high = (each.get(field.field_id) for each in (file.lower_bounds or {}, file.upper_bounds or {}))
    if low is None or high is None:
        return None
    kind: Any = field.field_type
    return from_bytes(kind, low), from_bytes(kind, high)


def table_rows(session: SparkSession, parts: Sequence[TablePart]) -> DataFrame:
    """Return the records of the parts with the columns of the source."""
    schema = spark_schema(include_headers=True)
    if not parts:
        return session.createDataFrame([], schema)
    given = session.createDataFrame([(pickle.dumps(each),) for each in parts], "part binary")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for each in batch.column("part").to_pylist():
                yield from pickle.loads(each).rows(ROWS.names)

    return given.repartition(len(parts)).mapInArrow(read, schema)
