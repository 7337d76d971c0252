"""The records of an Iceberg table as one side of a comparison. They are the records that a reader of the table gets,
with deletes and schema changes applied.

pyiceberg reads a null list as an empty list, and writes it so when it rewrites a file. So pyarrow reads the files, and
pyiceberg only determines which rows are deleted. An empty list of headers is read as null: both mean a record without
headers.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kraft.spark.decode.rows import arrow_schema, spark_schema
from kraft.spark.jobs.digests import RANGE, Prints, RangeDigest, prints
from kraft.spark.jobs.evolution import shown_type
from kraft.spark.jobs.iceberg import TableName, error_line, plain, require_table
from kraft.spark.jobs.iceberg_files import access_of, storage
from kraft.spark.jobs.running import JobFailed

if TYPE_CHECKING:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.types import NestedField
    from pyspark.sql import DataFrame, SparkSession

    from kraft.spark.jobs.digesting import Compare

COLUMNS = ("key", "value", "headers", "timestamp", "offset")
ROWS = arrow_schema(include_headers=True)
ROWS_MAX = 10_000
"""Rows of a file that are read together."""


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
        """Yield the records with these columns of the source."""
        from pyiceberg.table import StaticTable

        table, task = StaticTable.from_metadata(self.metadata, dict(self.access)), pickle.loads(self.file)
        left = self.left(table, task) if task.delete_files else None
        types = pa.schema([ROWS.field(each) for each in dict.fromkeys((*columns, "topic", "partition", "offset"))])
        for batch in batches_of(storage(self.access), task.file.file_path, table.schema(), types):
            offsets = batch.column("offset")
            wanted = pc.and_(pc.equal(batch.column("topic"), self.topic), pc.equal(batch["partition"], self.partition))
            if self.offsets is not None:
                begin, end = self.offsets
                wanted = pc.and_(wanted, pc.and_(pc.greater_equal(offsets, begin), pc.less(offsets, end)))
            if left is not None:
                wanted = pc.and_(wanted, pa.array([taken(left, each) for each in offsets.to_pylist()], pa.bool_()))
            yield without_empty(batch.filter(wanted)).select(list(columns))

    def left(self, table: Table, task: FileScanTask) -> Counter[int]:
        """Return the number of rows of each offset that are not deleted."""
        from pyiceberg.expressions.parser import parse
        from pyiceberg.io.pyarrow import ArrowScan

        wanted = parse(f"topic == '{self.topic}' and partition == {self.partition}")
        scan = ArrowScan(table.metadata, table.io, table.schema().select("offset"), wanted)
        return Counter(each for batch in scan.to_record_batches([task]) for each in batch["offset"].to_pylist())

    def around(self, found: Sequence[RangeDigest]) -> TablePart:
        """Return the part narrowed to these ranges."""
        numbers = [each.number for each in found]
        return replace(self, offsets=(min(numbers) * RANGE, (max(numbers) + 1) * RANGE))


def without_empty(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with null for an empty list of headers."""
    if "headers" not in rows.schema.names:
        return rows
    place, headers = rows.schema.get_field_index("headers"), rows.column("headers")
    is_empty = pc.equal(pc.list_value_length(headers), 0)
    kept = pc.if_else(pc.fill_null(is_empty, False), pa.scalar(None, headers.type), headers)
    return rows.set_column(place, rows.schema.field(place), kept)


def taken(left: Counter[int], offset: int) -> bool:
    """Whether a row of this offset is left. Counts the row as used."""
    is_left = left[offset] > 0
    left[offset] -= is_left
    return is_left


def batches_of(access: PyArrowFileIO, path: str, table: Schema, types: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file with these columns of the table. A column that the file does not have is null."""
    from pyarrow.parquet import ParquetFile

    with access.new_input(path).open() as stream, ParquetFile(stream) as file:
        names = [name_in_file(file.schema_arrow, table.find_field(each.name)) for each in types]
        for batch in file.iter_batches(ROWS_MAX, columns=[each for each in names if each is not None]):
            arrays = [
                pa.nulls(batch.num_rows, each.type) if name is None else batch.column(name).cast(each.type)
                for name, each in zip(names, types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=types)


def name_in_file(file: pa.Schema, column: NestedField) -> str | None:
    """Return the name that a column of the table has in a file. It is found by its id, or by its name in a file without
    ids."""
    ids = {each.name: (each.metadata or {}).get(b"PARQUET:field_id") for each in file}
    if not any(ids.values()):
        return column.name if column.name in ids else None
    return next((name for name, number in ids.items() if number == b"%d" % column.field_id), None)


def require_archive(name: TableName) -> Table:
    """Return the table, which must have the columns of an archive. Raises JobNotFound, JobFailed."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    table = require_table(name)
    has, wanted = plain(schema_to_pyarrow(table.schema(), include_field_ids=False)), plain(ROWS)
    for each in COLUMNS:
        if each not in has.names:
            raise JobFailed(f"the table {name.shown} is not the archive of a topic: it has no column {each}")
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
        raise JobFailed(f"the table {name.shown} cannot be read: {error_line(problem)}") from problem
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
    """Return the partitions of which a file may hold records. Raises JobFailed if the file's statistics do not show
    them."""
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
