"""Schemas of keys and values: three ways to say the same, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
t = pytest.importorskip("pyspark.sql.types")

from pyspark.sql.pandas.types import to_arrow_type  # noqa: E402 (an extra's)

from kraft.spark.decode.typed_schema import schema_of, spark_type  # noqa: E402

LEAVES = st.sampled_from(
    [
        t.BooleanType(),
        t.ByteType(),
        t.ShortType(),
        t.IntegerType(),
        t.LongType(),
        t.FloatType(),
        t.DoubleType(),
        t.StringType(),
        t.BinaryType(),
        t.DateType(),
        t.TimestampType(),
        t.TimestampNTZType(),
        t.DecimalType(10, 2),
        t.DecimalType(38, 0),
    ]
)
NAMES = st.text("ab_é`:, ", min_size=1, max_size=3)


def structs(inner: Any) -> Any:
    return st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(
        lambda fields: t.StructType([t.StructField(name, kind) for name, kind in fields.items()])
    )


TYPES = st.recursive(
    LEAVES,
    lambda inner: inner.map(t.ArrayType) | inner.map(lambda kind: t.MapType(t.StringType(), kind)) | structs(inner),
    max_leaves=5,
)


def ddl(kind: Any) -> str:
    """The type as DDL; names in backquotes."""
    if isinstance(kind, t.StructType):
        return f"STRUCT<{fields_ddl(kind)}>"
    if isinstance(kind, t.ArrayType):
        return f"array < {ddl(kind.elementType)} >"
    if isinstance(kind, t.MapType):
        return f"MAP<{ddl(kind.keyType)},{ddl(kind.valueType)}>"
    return str(kind.simpleString())


def fields_ddl(kind: Any) -> str:
    return ", ".join(f"`{field.name.replace('`', '``')}` {ddl(field.dataType)}" for field in kind)


@given(structs(TYPES))
def test_ddl_and_spark_json_schemas_parse_as_in_spark(kind: Any) -> None:
    found = schema_of(fields_ddl(kind))
    assert spark_type(found) == kind
    assert schema_of(kind.json()) == found
    assert to_arrow_type(kind, timezone="UTC") == found, "Spark compares the first batch's types with its own"


def test_ddl_clauses_without_effect_are_accepted() -> None:
    assert schema_of("a: INT NOT NULL COMMENT 'the \\' first', b dec(4)") == pa.struct(
        [pa.field("a", pa.int32()), pa.field("b", pa.decimal128(4, 0))]
    )


def test_json_schema_gives_types_and_its_validation_rules_are_ignored() -> None:
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["carrier"],
        "properties": {
            "carrier": {"type": "string", "minLength": 2},
            "delay": {"type": ["number", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "legs": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
        },
    }
    said = "carrier STRING, delay DOUBLE, at TIMESTAMP, legs ARRAY<STRUCT<n: BIGINT>>, tags MAP<STRING, BOOLEAN>"
    assert schema_of(json.dumps(document)) == schema_of(said)


def test_a_value_schema_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "flight.ddl").write_text("a INT")
    assert schema_of(str(tmp_path / "flight.ddl")) == schema_of("a INT")
    with pytest.raises(ValueError, match="file cannot be read"):
        schema_of(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a", "ends too early"),
        ("a INTT", "'INTT' is not a supported type"),
        ("a INT b INT", "has 'b' where its end is expected"),
        ("a INT, a STRING", "field a appears twice"),
        ("a ARRAY<INT", "has its end where > is expected"),
        ("a ARRAY INT", "has 'INT' where < is expected"),
        ("a DECIMAL(39,2)", "precision is at most 38"),
        ("a DECIMAL(x)", "'x' where a number is expected"),
        ("a INT NOT", "NOT without NULL"),
        ("a ? INT", r"cannot be read from '\? INT' on"),
        ("<", "where a field's name is expected"),
        ("a " + "ARRAY<" * 100, "at most 64 levels deep"),
        ("{", "starts like JSON, but is not valid JSON"),
        ('{"type": "struct", "fields": [{"name": "a"}]}', "lacks 'type'"),
        ('{"type": "struct", "fields": [{"name": "a", "type": {"type": "udt"}}]}', "unknown type udt"),
        ('{"type": "array", "items": {"type": "string"}}', "must be an object with properties"),
        ('{"type": "object", "properties": {"a": {"type": ["string", "number"]}}}', "one type other than null"),
        ('{"type": "object", "properties": {"a": true}}', "true where an object is expected"),
        ('{"type": "object", "properties": {"a": {"type": "object"}}}', "an unsupported type"),
        ('{"type": "object", "properties": {}}', "at least one field"),
    ],
)
def test_an_invalid_schema_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        schema_of(text)
