"""Avro into Arrow: what was written comes out, and what cannot be read is told."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from kraft.spark.decode.avro_decoder import AvroDecoder  # noqa: E402 (extras')
from kraft.spark.decode.avro_schema import AvroSchemas, arrow_types, read_avsc  # noqa: E402
from kraft.spark.decode.typed_schema import schema_of  # noqa: E402

FIELDS: list[dict[str, Any]] = [
    {"name": "i", "type": ["null", "int"], "default": None},
    {"name": "l", "type": ["int", "long"]},
    {"name": "f", "type": "float"},
    {"name": "d", "type": {"type": "double"}},
    {"name": "b", "type": "boolean"},
    {"name": "s", "type": "string"},
    {"name": "raw", "type": "bytes"},
    {"name": "e", "type": {"type": "enum", "name": "Sign", "symbols": ["PLUS", "MINUS"]}},
    {"name": "again", "type": ["null", "Sign"]},
    {"name": "x", "type": {"type": "fixed", "name": "Two", "size": 2}},
    {"name": "m", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "ms", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
    {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "a", "type": {"type": "array", "items": ["null", "int"]}},
    {"name": "t", "type": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}}},
    {"name": "o", "type": {"type": "record", "name": "Inner", "fields": [{"name": "z", "type": "org.example.Sign"}]}},
]
SCHEMA = {"type": "record", "name": "Row", "namespace": "org.example", "fields": FIELDS}
AS_DDL = (
    "i INT, l BIGINT, f FLOAT, d DOUBLE, b BOOLEAN, s STRING, raw BINARY, e STRING, again STRING, x BINARY, "
    "m DECIMAL(6,2), day DATE, ms TIMESTAMP, us TIMESTAMP, local TIMESTAMP_NTZ, id STRING, a ARRAY<INT>, "
    "t MAP<STRING, TIMESTAMP>, o STRUCT<z: STRING>"
)
SIGNS = st.sampled_from(["PLUS", "MINUS"])
MICROS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
MILLIS = MICROS.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
ROWS = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "l": st.integers(-(2**63), 2**63 - 1),
        "f": st.floats(width=32, allow_nan=False),
        "d": st.floats(allow_nan=False),
        "b": st.booleans(),
        "s": st.text(),
        "raw": st.binary(max_size=5),
        "e": SIGNS,
        "again": st.none() | SIGNS,
        "x": st.binary(min_size=2, max_size=2),
        "m": st.decimals(-9999, 9999, places=2),
        "day": st.dates(),
        "ms": st.none() | MILLIS.map(lambda time: time.replace(tzinfo=UTC)),
        "us": MICROS.map(lambda time: time.replace(tzinfo=UTC)),
        "local": MILLIS,
        "id": st.uuids().map(str),
        "a": st.lists(st.none() | st.integers(-9, 9), max_size=3),
        "t": st.dictionaries(st.text(max_size=2), MILLIS.map(lambda time: time.replace(tzinfo=UTC)), max_size=2),
        "o": st.fixed_dictionaries({"z": SIGNS}),
    }
)


def written(row: dict[str, Any], schema: Any = SCHEMA) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return stream.getvalue()


def decoder(schema: Any = SCHEMA, names: tuple[str, ...] | None = None, **more: Any) -> AvroDecoder:
    text = json.dumps(schema)
    kind = arrow_types(text)[0]
    chosen = kind if names is None else pa.struct([field for field in kind if field.name in names])
    return AvroDecoder(chosen, AvroSchemas(reader=text, **more))


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def test_avro_types_map_to_the_types_of_from_avro() -> None:
    assert arrow_types(json.dumps(SCHEMA))[0] == schema_of(AS_DDL)


@given(st.lists(st.none() | ROWS, max_size=10))
def test_avro_values_survive_writing_and_reading(rows: list[dict[str, Any] | None]) -> None:
    texts = pa.array([None if row is None else written(row) for row in rows], pa.binary())
    found = decoder().decode(texts)
    assert not found.bad
    assert found.rows.type == schema_of(AS_DDL)
    assert found.rows.to_pylist() == [None if row is None else {**row, "t": list(row["t"].items())} for row in rows]
    few = decoder(names=("again", "us")).decode(texts)
    assert few.rows.to_pylist() == [None if row is None else {"again": row["again"], "us": row["us"]} for row in rows]


@given(st.lists(st.tuples(ROWS, st.integers(0, 200)), max_size=8))
def test_a_truncated_or_too_long_record_is_bad_and_adjacent_records_are_read(cuts: list[tuple[Any, int]]) -> None:
    whole = [written(row) for row, _ in cuts]
    texts = [text[:cut] if cut < len(text) else text + b"x" for text, (_, cut) in zip(whole, cuts, strict=True)]
    mixed = [each for pair in zip(texts, whole, strict=True) for each in pair]
    found = decoder().decode(pa.array(mixed, pa.binary()))
    assert sorted(found.bad) == list(range(0, len(mixed), 2))
    assert found.rows.is_null().to_pylist() == [index % 2 == 0 for index in range(len(mixed))]


def test_a_value_out_of_range_for_its_type_makes_only_its_record_bad() -> None:
    schema = record(m={"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0})
    wide = record(m={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0})
    texts = [written({"m": Decimal(99)}, schema), written({"m": Decimal(12345)}, wide)]
    found = decoder(schema).decode(pa.array(texts, pa.binary()))
    assert found.rows.to_pylist() == [{"m": Decimal(99)}, None]
    assert list(found.bad) == [1]
    late = record(t={"type": "long", "logicalType": "timestamp-millis"})
    texts = [written({"t": 2**62}, record(t="long")), written({"t": 5}, record(t="long"))]
    found = decoder(late).decode(pa.array(texts, pa.binary()))
    assert found.rows.to_pylist() == [None, {"t": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=5)}]


def test_a_registry_record_is_read_with_the_latest_schema_version() -> None:
    old, new = record(a="int"), record(a="long", b="string")
    new["fields"][1]["default"] = "none"
    found = decoder(new, writers={7: json.dumps(old), 9: json.dumps(new)}, subject="t-value").decode(
        pa.array(
            [
                b"\0\0\0\0\x07" + written({"a": 1}, old),
                b"\0\0\0\0\x09" + written({"a": 2**40, "b": "x"}, new),
                b"\0\0\0\0\x08" + written({"a": 1}, old),
                written({"a": 1}, old),
            ],
            pa.binary(),
        )
    )
    assert found.rows.to_pylist() == [{"a": 1, "b": "none"}, {"a": 2**40, "b": "x"}, None, None]
    assert found.bad[2] == "schema id 8 was not in the subject t-value (7, 9) when the query started"
    assert found.bad[3].startswith("it does not start with a schema registry's header")


def test_a_renamed_record_is_read_by_its_alias_whichever_fields_are_shown() -> None:
    old = {**record(a="int", b="int"), "name": "Old"}
    new = {**record(a="int", b="int"), "aliases": ["Old"]}
    writers = {7: json.dumps(old), 9: json.dumps(new)}
    text = b"\0\0\0\0\x07" + written({"a": 1, "b": 2}, old)
    for names in (("a", "b"), ("b",)):
        found = decoder(new, names, writers=writers).decode(pa.array([text], pa.binary()))
        assert found.rows.to_pylist() == [{name: {"a": 1, "b": 2}[name] for name in names}]


def test_an_avro_date_is_read_as_a_date() -> None:
    assert decoder(record(d={"type": "int", "logicalType": "date"})).decode(
        pa.array([written({"d": 1}, record(d="int"))], pa.binary())
    ).rows.to_pylist() == [{"d": date(1970, 1, 2)}]


def test_an_avro_schema_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "row.avsc").write_text(json.dumps(SCHEMA))
    assert json.loads(read_avsc(str(tmp_path / "row.avsc"))) == SCHEMA
    with pytest.raises(ValueError, match="file cannot be read"):
        read_avsc(str(tmp_path / "none.avsc"))
    with pytest.raises(ValueError, match=r"as JSON, as the path of an \.avsc file, or as the URL"):
        read_avsc("a INT")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "array", "items": "int"}, "outermost type of an Avro schema must be a record"),
        (record(a="nope"), "is not a valid Avro schema: UnknownType nope"),
        ({"type": "record", "fields": []}, "is not a valid Avro schema"),
        (record(a=["int", "string"]), "union of several types is not supported"),
        (record(a=["null", "R"]), "the record R contains itself"),
        (record(a="null"), "the type null has no equivalent in Spark"),
        (record(), "at least one field"),
    ],
)
def test_an_avro_type_without_a_spark_type_is_refused(schema: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        arrow_types(json.dumps(schema))
