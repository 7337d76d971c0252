"""The row of a Kafka record: its schema in Spark and in Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kraft.spark.decode.shape import Shape

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
COLUMNS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
)
DELIVERY_COUNT = pa.field("deliveryCount", pa.int32())
"""How often a share group has delivered the record, this delivery included. It follows the other columns."""
ARROW_SCHEMA = pa.schema(COLUMNS)
ARROW_SCHEMA_WITH_HEADERS = pa.schema([*COLUMNS, pa.field("headers", HEADERS_TYPE)])


def arrow_schema(include_headers: bool) -> pa.Schema:
    return ARROW_SCHEMA_WITH_HEADERS if include_headers else ARROW_SCHEMA


def spark_schema(include_headers: bool, shape: Shape | None = None, *, of_share_group: bool = False) -> StructType:
    """Return the Spark schema of the rows, after `shape` if given. Rows of a share group have a delivery count."""
    from pyspark.sql.types import StructField, StructType

    from kraft.spark.decode.typed_schema import spark_type

    arrow = arrow_schema(include_headers) if shape is None else shape.schema
    fields = [*arrow, DELIVERY_COUNT] if of_share_group else arrow
    return StructType([StructField(field.name, spark_type(field.type)) for field in fields])
