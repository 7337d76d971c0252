"""Avro schemas: the Arrow type of a record, and the schema that fastavro reads. Types are those of Spark's from_avro.
All fields are nullable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kraft.spark.decode.ddl import DEPTH_MAX, UTC_TIMESTAMP, list_of, map_of, struct_of

PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): UTC_TIMESTAMP,
    ("long", "timestamp-micros"): UTC_TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
"""Other logical types are read as their underlying type, as in from_avro. Decimals are handled separately."""
MILLIS = {"timestamp-millis": pa.timestamp("ms", tz="UTC"), "local-timestamp-millis": pa.timestamp("ms")}
WIDENED: dict[tuple[str, ...], pa.DataType] = {("int", "long"): pa.int64(), ("double", "float"): pa.float64()}
"""Unions of two number types, read as the wider one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroSchemas:
    """The texts of schemas. `writers` are the writer schemas by id, if each record starts with a schema id."""

    reader: str
    writers: Mapping[int, str] | None = None
    subject: str = ""


def read_avsc(text: str) -> str:
    """Return a schema's text, given as text or as the name of a file (`.avsc`, `.json`). Raises ValueError."""
    if text.strip().endswith((".avsc", ".json")):
        try:
            text = Path(text.strip()).read_text(encoding="utf-8")
        except OSError as problem:
            raise ValueError(f"the schema's file cannot be read: {problem}") from None
    if not text.lstrip().startswith("{"):
        raise ValueError(
            "an Avro schema is given as JSON, as the path of an .avsc file, or as the URL of a schema registry"
        )
    return text


def parsed(text: str) -> dict[str, Any]:
    """Parse the schema for fastavro, with full names, and without the logical types that Arrow converts itself. Raises
    ValueError."""
    try:
        import fastavro
    except ImportError:
        raise ValueError("reading Avro needs fastavro: pip install 'kraft-node[avro]'") from None
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        document = json.loads(text)
    except ValueError as problem:
        raise ValueError(f"the Avro schema is not valid JSON: {problem}") from None
    if not isinstance(document, dict) or document.get("type") != "record":
        raise ValueError("the outermost type of an Avro schema must be a record")
    try:
        found = fastavro.parse_schema(without_logical_types(document))
    except (SchemaParseException, UnknownType, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"this is not a valid Avro schema: {type(problem).__name__} {problem}") from None
    assert isinstance(found, dict)
    return found


def without_logical_types(schema: Any) -> Any:
    """Return the schema with decimals as the only logical type. Arrow converts times and dates itself, a column at a
    time."""
    if isinstance(schema, list):
        return [without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "logicalType" or value == "decimal"}
    for key in ("type", "items", "values", "fields"):
        if key in kept:
            kept[key] = without_logical_types(kept[key])
    return kept


def only_fields(schema: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the record schema with only these fields, to be parsed again. A field that defines a named type stays,
    because other fields may refer to it."""
    wanted = set(names)
    fields = [field for field in schema["fields"] if field["name"] in wanted or '"name"' in json.dumps(field["type"])]
    return {"type": "record", "name": schema["name"], "aliases": schema.get("aliases", []), "fields": fields}


def arrow_types(text: str) -> tuple[pa.StructType, pa.StructType]:
    """Return the type of a record in the result, and the type for building it. They differ in the unit of times. Raises
    ValueError for a type that Spark does not have."""
    parsed(text)  # Syntax errors are reported before errors of types.
    walk = TypeWalk()
    shown, built = walk.record(json.loads(text), "", 0)
    return shown, built


class TypeWalk:
    """Walks a schema and remembers its named types."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[pa.DataType, pa.DataType] | None] = {}

    def record(self, schema: dict[str, Any], space: str, depth: int) -> tuple[pa.StructType, pa.StructType]:
        name, space = full_name(schema, space)
        self.named[name] = None  # None while it is open: a reference meanwhile is recursive.
        types = [(field["name"], *self.types(field["type"], space, depth + 1)) for field in schema["fields"]]
        found = (
            struct_of(pa.field(field, shown) for field, shown, _ in types),
            struct_of(pa.field(field, built) for field, _, built in types),
        )
        self.named[name] = found
        return found

    def types(self, schema: Any, space: str, depth: int) -> tuple[pa.DataType, pa.DataType]:
        """Return the type in the result and the type for building it. Raises ValueError."""
        if depth > DEPTH_MAX:
            raise ValueError(f"types may be nested at most {DEPTH_MAX} levels deep")
        if isinstance(schema, list):
            return self.union(schema, space, depth)
        if isinstance(schema, str):
            return self.by_name(schema, space)
        kind = schema["type"]
        if kind == "record":
            return self.record(schema, space, depth)
        if kind == "array":
            shown, built = self.types(schema["items"], space, depth + 1)
            return list_of(shown), list_of(built)
        if kind == "map":
            shown, built = self.types(schema["values"], space, depth + 1)
            return map_of(pa.string(), shown), map_of(pa.string(), built)
        if not isinstance(kind, str) or kind not in PRIMITIVES:
            return self.types(kind, space, depth + 1)
        if schema.get("logicalType") == "decimal" and kind in ("bytes", "fixed"):
            decimal = pa.decimal128(schema["precision"], schema.get("scale", 0))
            found = (decimal, decimal)
        else:
            shown = LOGICAL.get((kind, str(schema.get("logicalType"))), PRIMITIVES[kind])
            is_time = pa.types.is_timestamp(shown)
            found = (shown, MILLIS.get(schema["logicalType"], shown) if is_time else shown)
        if kind in ("enum", "fixed"):
            self.named[full_name(schema, space)[0]] = found
        return found

    def by_name(self, name: str, space: str) -> tuple[pa.DataType, pa.DataType]:
        if name in PRIMITIVES:
            return PRIMITIVES[name], PRIMITIVES[name]
        for full in (name if "." in name or not space else f"{space}.{name}", name):
            if full in self.named:
                found = self.named[full]
                if found is None:
                    raise ValueError(f"the record {full} contains itself, and Spark has no recursive types")
                return found
        raise ValueError(f"the type {name} has no equivalent in Spark")

    def union(self, branches: list[Any], space: str, depth: int) -> tuple[pa.DataType, pa.DataType]:
        some = [branch for branch in branches if branch != "null"]
        if len(some) == 1:
            return self.types(some[0], space, depth + 1)
        wider = WIDENED.get(tuple(sorted(map(str, some))))
        if wider is None:
            raise ValueError(f"a union of several types is not supported: {json.dumps(branches)[:80]}")
        return wider, wider


def full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace for types within it."""
    name = schema["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    within = schema.get("namespace", space)
    return (f"{within}.{name}" if within else name), within
