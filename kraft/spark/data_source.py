"""The data source that implements `format("kraft")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from kraft.spark import FORMAT
from kraft.spark.decode.shape_options import shape_options
from kraft.spark.option_values import flag
from kraft.spark.source.options import batch_options, kafka_options, lower, selection_of
from kraft.spark.source.share_options import share_options
from kraft.spark.worker_traceback import hide_traceback

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kraft.spark.sink.writer import KafkaBatchWriter, KafkaStreamWriter
    from kraft.spark.source.batch_reader import KafkaBatchReader
    from kraft.spark.source.options import SourceOptions
    from kraft.spark.source.share_reader import ShareStreamReader
    from kraft.spark.source.stream_reader import KafkaStreamReader, RefusedStreamReader

OPTIONS_OF_TABLE = (
    "Spark does not pass the options of a catalog table to a Python data source. Use CREATE TEMPORARY VIEW "
    "<name> USING kraft OPTIONS (...), or give the options in the query: SELECT ... FROM <table> WITH (...)"
)
"""The error text for a read without any option."""


class KraftDataSource(DataSource):
    """A data source of Kafka topics without jars. Options and rows are those of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    @hide_traceback()
    def schema(self) -> StructType:
        """Return the row schema. It is fixed, except for the changes by `columns`, `keyFormat` and `valueFormat`.
        Called at `load()`, so options that are invalid for both batch and stream fail here."""
        from kraft.spark.decode.rows import spark_schema

        given = lower(self.options)
        selection_of(given)
        kafka_options(given)
        include_headers = flag(given, "includeHeaders", False)
        shape = shape_options(given, include_headers)
        return spark_schema(include_headers, shape, of_share_group="sharegroup" in given)

    @hide_traceback()
    def reader(self, schema: StructType) -> KafkaBatchReader:
        from kraft.spark.source.batch_reader import KafkaBatchReader, KafkaFilteringBatchReader
        from kraft.spark.source.pushdown import is_pushing_down

        if not self.options:
            raise ValueError(OPTIONS_OF_TABLE)
        options = batch_options(self.options)
        self.require_fixed(schema, options)
        return (KafkaFilteringBatchReader if is_pushing_down() else KafkaBatchReader)(options)

    def streamReader(self, schema: StructType) -> KafkaStreamReader | ShareStreamReader | RefusedStreamReader:
        from kraft.spark.source.share_reader import ShareStreamReader
        from kraft.spark.source.stream_reader import KafkaStreamReader, RefusedStreamReader

        try:
            options = share_options(self.options)
            self.require_fixed(schema, options)
        except ValueError as problem:
            # Spark's stream runner tells of an error of its own when this function raises one.
            return RefusedStreamReader(problem)
        return KafkaStreamReader(options) if options.share_group is None else ShareStreamReader(options)

    @hide_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> KafkaBatchWriter:
        from kraft.spark.sink.sink_options import sink_options
        from kraft.spark.sink.writer import KafkaBatchWriter

        if overwrite:
            raise ValueError("Save mode Overwrite not allowed for Kafka. The allowed save mode is append.")
        return KafkaBatchWriter(sink_options(self.options, schema, streaming=False))

    @hide_traceback()
    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:
        """Return the writer of a stream. Complete and update modes append, as with the official connector, because a
        log can only be appended to."""
        from kraft.spark.sink.sink_options import sink_options
        from kraft.spark.sink.writer import KafkaStreamWriter

        return KafkaStreamWriter(sink_options(self.options, schema, streaming=True))

    def require_fixed(self, schema: StructType, options: SourceOptions) -> None:
        from kraft.spark.decode.rows import spark_schema

        fixed = spark_schema(options.include_headers, options.shape, of_share_group=options.share_group is not None)
        if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in fixed]:
            raise ValueError("Kafka source has a fixed schema and cannot be set with a custom one")
