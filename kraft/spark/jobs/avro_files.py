"""Read Avro container files as rows, without Spark's Avro jar: Spark lists the files, and its tasks read each with
fastavro, block by block.

The columns are those of the first run. A file may lack some of them. A file with another column or another type is
rejected.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kraft.spark.jobs.running import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

LISTED = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
"""The columns of Spark's `binaryFile`. Spark reads a file only if its content is used."""
SCHEME = re.compile("^file:(?://)?(?=/)")
ROWS_MAX = 10_000
"""Rows of one Arrow batch."""
UNREADABLE = (EOFError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError)
"""Exceptions of fastavro for a damaged file, or one that is not Avro."""


def shape_of_files(paths: Iterable[Path]) -> StructType:
    """Return the columns of all files together. Raises JobFailed for a file that conflicts with the files before it."""
    from pyspark.sql.types import StructField, StructType

    from kraft.spark.decode.typed_schema import spark_type

    require_library()
    kinds: dict[str, pa.DataType] = {}
    for path in paths:
        with errors_named(path), path.open("rb") as file:
            for field in AvroFile(file).shown:
                check_kind(path, field, kinds.setdefault(field.name, field.type))
    if not kinds:
        raise JobFailed("there is no Avro file yet, so the columns are unknown: run the job again once there is one")
    return StructType([StructField(name, spark_type(kind)) for name, kind in kinds.items()])


def check_fit(paths: Iterable[Path], shape: StructType) -> None:
    """Raise JobFailed for a file with a column that `shape` does not have."""
    require_library()
    kind = kind_of(shape)
    for path in paths:
        with errors_named(path), path.open("rb") as file:
            check_fields(path, AvroFile(file).shown, kind)


def rows_of(files: DataFrame, shape: StructType) -> DataFrame:
    """Return the rows of the listed files."""
    return files.select("path").mapInArrow(ReadFiles(kind_of(shape)), shape)


def kind_of(shape: StructType) -> pa.StructType:
    from kraft.spark.decode.typed_schema import of_spark_json

    return of_spark_json(shape.jsonValue(), 0)


def check_fields(path: object, found: pa.StructType, kind: pa.StructType) -> None:
    for field in found:
        index = kind.get_field_index(field.name)
        check_kind(path, field, kind[index].type if index >= 0 else None)


def check_kind(path: object, field: pa.Field, known: pa.DataType | None) -> None:
    if known is None:
        what = "not among the columns of the first run"
    elif known != field.type:
        what = f"of type {field.type} (it was {known})"
    else:
        return
    raise JobFailed(
        f"{path}: column {field.name} is {what}; ingest such files from another directory in a separate run"
    )


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Convert an error in the body to JobFailed that names the file."""
    try:
        yield
    except UNREADABLE as problem:
        raise JobFailed(f"{path} is not a readable Avro file: {problem}") from problem


def require_library() -> None:
    """Raise JobFailed if fastavro is not installed."""
    try:
        import fastavro  # noqa: F401
    except ImportError as problem:
        raise JobFailed("Avro files need fastavro: pip install 'kraft-node[spark,avro]'") from problem


class ReadFiles:
    """Reads the listed files. Runs in Spark's workers."""

    def __init__(self, kind: pa.StructType) -> None:
        self.kind = kind

    def __call__(self, listed: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in listed:
            for path in batch.column("path").to_pylist():
                place = Path(SCHEME.sub("", path))
                with errors_named(place), place.open("rb") as file:
                    found = AvroFile(file)
                    check_fields(place, found.shown, self.kind)
                    yield from (self.fitted(rows) for rows in found.batches())

    def fitted(self, rows: pa.StructArray) -> pa.RecordBatch:
        """Return the rows with all columns. A column that the file lacks is null."""
        columns = []
        for field in self.kind:
            index = rows.type.get_field_index(field.name)
            columns.append(rows.field(index) if index >= 0 else pa.nulls(len(rows), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(self.kind)))


class AvroFile:
    """One Avro file. Raises one of UNREADABLE, here and during reading."""

    def __init__(self, file: Any) -> None:
        import fastavro

        from kraft.spark.decode.avro_bounds import AvroBounds
        from kraft.spark.decode.avro_schema import arrow_types, parsed

        self.blocks = fastavro.block_reader(file)
        text = self.blocks.metadata["avro.schema"]
        self.shown, self.built = arrow_types(text)
        self.writer = parsed(text)
        self.bounds = AvroBounds(self.writer, skips=False)

    def batches(self) -> Iterator[pa.StructArray]:
        rows: list[Any] = []
        for block in self.blocks:
            rows += self.records(block)
            if len(rows) >= ROWS_MAX:
                yield self.array(rows)
                rows = []
        if rows:
            yield self.array(rows)

    def records(self, block: Any) -> Iterator[Any]:
        import fastavro

        data = block.bytes_.read()
        stream = io.BytesIO(data)
        for _ in range(block.num_records):
            if self.bounds.is_needed:
                self.bounds.check(data, stream.tell())
            yield fastavro.schemaless_reader(stream, self.writer, None)
        if stream.tell() != len(data):
            raise ValueError(f"a block of {block.num_records} records has {len(data) - stream.tell()} bytes more")

    def array(self, rows: list[Any]) -> pa.StructArray:
        return pa.array(rows, self.built).cast(self.shown)
