"""Parse `valueSchema` and `keySchema` to an Arrow type: Spark's DDL, Spark's schema as JSON, or JSON Schema. Pure,
except for reading a named file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kraft.spark.decode.ddl import DEPTH_MAX, UTC_TIMESTAMP, list_of, map_of, parse_fields, parse_type, struct_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

FORMATS = {"date-time": UTC_TIMESTAMP, "date": pa.date32()}
"""JSON Schema's formats of strings that have a type of their own; others stay strings."""
OF_JSON_SCHEMA = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


def schema_of(text: str) -> pa.StructType:
    """Return the type of a schema, given as text or as the name of a file (`.json`, `.ddl`). Raises ValueError."""
    if text.strip().endswith((".json", ".ddl")):
        try:
            text = Path(text.strip()).read_text(encoding="utf-8")
        except OSError as problem:
            raise ValueError(f"the schema's file cannot be read: {problem}") from None
    if not text.lstrip().startswith("{"):
        return parse_fields(text)
    try:
        document = json.loads(text)
    except ValueError as problem:
        raise ValueError(f"the schema starts like JSON, but is not valid JSON: {problem}") from None
    found = of_spark_json(document, 0) if document.get("type") == "struct" else of_json_schema(document, 0)
    if not pa.types.is_struct(found):
        raise ValueError("the schema's outermost type must be an object with properties")
    return found


def of_spark_json(described: Any, depth: int) -> pa.DataType:
    """Convert a schema in the format of `DataFrame.schema.json()`. Raises ValueError."""
    if depth > DEPTH_MAX:
        raise ValueError(f"types may be nested at most {DEPTH_MAX} levels deep")
    if isinstance(described, str):
        return parse_type(described)
    try:
        kind = described["type"]
        if kind == "struct":
            return struct_of(
                pa.field(field["name"], of_spark_json(field["type"], depth + 1)) for field in described["fields"]
            )
        if kind == "array":
            return list_of(of_spark_json(described["elementType"], depth + 1))
        if kind == "map":
            return map_of(
                of_spark_json(described["keyType"], depth + 1), of_spark_json(described["valueType"], depth + 1)
            )
    except (KeyError, TypeError) as problem:
        raise ValueError(f"a schema in Spark's JSON form lacks {problem}") from None
    raise ValueError(f"a schema in Spark's JSON form has the unknown type {kind}")


def of_json_schema(described: Any, depth: int) -> pa.DataType:
    """Convert a JSON Schema: types, properties, items, additionalProperties, time formats. Rules for values (minimum,
    pattern, required) are ignored: they change no type. Raises ValueError."""
    if depth > DEPTH_MAX:
        raise ValueError(f"types may be nested at most {DEPTH_MAX} levels deep")
    if not isinstance(described, Mapping):
        raise ValueError(f"JSON Schema has {json.dumps(described)} where an object is expected")
    kinds = described.get("type")
    named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if len(named) != 1 or not isinstance(named[0], str):
        raise ValueError(
            f"JSON Schema must give each field exactly one type other than null: {json.dumps(described)[:80]}"
        )
    kind = named[0]
    if kind == "string":
        return FORMATS.get(str(described.get("format")), pa.string())
    if kind in OF_JSON_SCHEMA:
        return OF_JSON_SCHEMA[kind]
    if kind == "array" and "items" in described:
        return list_of(of_json_schema(described["items"], depth + 1))
    if kind == "object" and isinstance(described.get("properties"), Mapping):
        return struct_of(
            pa.field(name, of_json_schema(each, depth + 1)) for name, each in described["properties"].items()
        )
    if kind == "object" and isinstance(described.get("additionalProperties"), Mapping):
        return map_of(pa.string(), of_json_schema(described["additionalProperties"], depth + 1))
    raise ValueError(f"JSON Schema has an unsupported type: {json.dumps(described)[:80]}")


def spark_type(arrow: pa.DataType) -> DataType:
    """Return the Spark type of an Arrow type."""
    from pyspark.sql import types as t

    if pa.types.is_struct(arrow):
        return t.StructType([t.StructField(field.name, spark_type(field.type)) for field in arrow])
    if pa.types.is_map(arrow):
        return t.MapType(spark_type(arrow.key_type), spark_type(arrow.item_type))
    if pa.types.is_list(arrow):
        return t.ArrayType(spark_type(arrow.value_type))
    if pa.types.is_decimal(arrow):
        return t.DecimalType(arrow.precision, arrow.scale)
    plain: dict[pa.DataType, DataType] = {
        pa.bool_(): t.BooleanType(),
        pa.int8(): t.ByteType(),
        pa.int16(): t.ShortType(),
        pa.int32(): t.IntegerType(),
        pa.int64(): t.LongType(),
        pa.float32(): t.FloatType(),
        pa.float64(): t.DoubleType(),
        pa.string(): t.StringType(),
        pa.binary(): t.BinaryType(),
        pa.date32(): t.DateType(),
        UTC_TIMESTAMP: t.TimestampType(),
        pa.timestamp("us"): t.TimestampNTZType(),
    }
    return plain[arrow]
