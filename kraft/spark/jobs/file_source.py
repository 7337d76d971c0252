"""A source whose tasks write the records that they read to Parquet files, and yield a row for each file.

It plans, resumes and reports loss as the source `kraft` does, and its offsets are the same: a query may change between
the two and keep its checkpoint. The records do not go through Spark, whose row-wise writer costs more than all the
rest. A task that runs again writes other files. So the rows that Spark returns name each record once.
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
    """Reads as KafkaStreamReader does, into files."""

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
    """`format("kraft_files")`, for jobs alone."""

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
    """Take the layout out of the options."""
    if LAYOUT in options:
        return Layout.of(options.pop(LAYOUT))
    from kraft.spark.jobs.iceberg_files import TableLayout

    return TableLayout.of(options.pop(TABLE))
