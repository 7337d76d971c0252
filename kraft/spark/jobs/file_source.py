"""A source whose tasks write the records that they read to Parquet files, and yield a row for each file.

It plans, resumes and reports loss as the source `kraft` does, and has the same offsets. So a query may switch between
the two sources and keep its checkpoint. The records do not pass through Spark's row-wise writer, which would be the
largest part of the cost. A retried task writes new files. So the rows that Spark returns refer to each record once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, InputPartition

from kraft.spark.client.worker_heap import freeze_imports
from kraft.spark.jobs.parquet_files import DDL, AnyLayout, Layout
from kraft.spark.source.batch_reader import fetcher
from kraft.spark.source.options import SourceOptions, stream_options
from kraft.spark.source.stream_reader import KafkaStreamReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "kraft_files"
LAYOUT = "layout"
TABLE = "table.secret"
"""The options with the layout of plain files, or of an Iceberg table's; the others are those of `kraft`. Spark does not
show the second one, which may have the storage's keys."""


class FilesReader(KafkaStreamReader):
    """A KafkaStreamReader whose tasks write files."""

    def __init__(self, options: SourceOptions, layout: AnyLayout) -> None:
        super().__init__(options)
        self.layout = layout

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from kraft.spark.decode.shape import Shaper

        shape = self.options.shape
        shaper = None if shape is None else Shaper(shape)
        files = self.layout.files()
        for each in partition.value or ():
            for rows in fetcher(self.options, self.config, each):
                files.add(rows, rows if shaper is None else shaper.shaped(rows))
        yield files.end()
        freeze_imports()


class FilesSource(DataSource):
    """`format("kraft_files")`, used only by jobs."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return DDL

    def streamReader(self, schema: StructType) -> FilesReader:
        given: dict[str, Any] = {name.lower(): value for name, value in self.options.items()}
        layout = layout_of(given)
        return FilesReader(stream_options(given), layout)


def layout_of(options: dict[str, Any]) -> AnyLayout:
    """Return the layout that the options contain."""
    if LAYOUT in options:
        return Layout.of(options.pop(LAYOUT))
    from kraft.spark.jobs.iceberg_files import TableLayout

    return TableLayout.of(options.pop(TABLE))
