"""A record of a few bytes that claims much is told at once, and what claims no more than it has is read."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from kraft.protocol.records.varint import varint  # noqa: E402 (extras')
from kraft.spark.decode.avro_bounds import EMPTY_ITEMS_MAX, LEVELS_MAX, AvroBounds  # noqa: E402
from tests.unit.spark.test_avro_decoder import ROWS, SCHEMA, decoder, record, written  # noqa: E402

HEADER = b"\0\0\0\0\x07"
MANY = 1 << 60
NEW = record(i="int")
EMPTY = {"type": "record", "name": "Empty", "fields": []}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": "float"}]}
NOTHING = {"type": "fixed", "name": "Nothing", "size": 0}
CHAIN = {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]}


def varints(*numbers: int) -> bytes:
    return b"".join(map(varint, numbers))


def of_registry(writer: Any, text: bytes) -> Any:
    """As the latest version of a subject shows a record of an earlier one: the field `i` alone."""
    found = decoder(NEW, writers={7: json.dumps(writer), 9: json.dumps(NEW)}, subject="t-value")
    return found.decode(pa.array([HEADER + text], pa.binary()))


@pytest.mark.parametrize("items", ["null", "boolean", "float", "double", EMPTY, POINT, NOTHING])
@pytest.mark.parametrize("claim", [varints(MANY), varints(-MANY, 1)])
def test_skipped_items_that_are_missing_make_the_record_bad(items: Any, claim: bytes) -> None:
    found = of_registry(record(a={"type": "array", "items": items}, i="int"), claim + varints(0, 5))
    assert found.rows.to_pylist() == [None]
    assert found.bad.keys() == {0}


def test_fields_that_are_not_shown_and_zero_byte_items_are_bounded() -> None:
    for items, names in (("double", ("i",)), (NOTHING, ("a", "i"))):
        schema = record(a={"type": "array", "items": items}, i="int")
        found = decoder(schema, names).decode(pa.array([varints(MANY, 0, 5)], pa.binary()))
        assert found.bad.keys() == {0}


def test_zero_byte_items_are_counted_over_all_arrays_of_a_record() -> None:
    writer = record(a={"type": "array", "items": {"type": "array", "items": "null"}}, i="int")
    few = varints(2, EMPTY_ITEMS_MAX // 2, 0, EMPTY_ITEMS_MAX // 2, 0, 0, 5)
    assert of_registry(writer, few).rows.to_pylist() == [{"i": 5}]
    many = varints(2, EMPTY_ITEMS_MAX // 2, 0, EMPTY_ITEMS_MAX // 2 + 1, 0, 0, 5)
    assert of_registry(writer, many).bad == {0: f"more than {EMPTY_ITEMS_MAX} items that take no bytes"}


def test_a_recursive_record_is_skipped_to_a_limited_depth() -> None:
    writer = record(c=CHAIN, i="int")
    assert of_registry(writer, varints(*[1] * (LEVELS_MAX // 2 - 2), 0, 5)).rows.to_pylist() == [{"i": 5}]
    found = of_registry(writer, varints(*[1] * 1_000_000, 0, 5))
    assert found.bad == {0: f"types are nested more than {LEVELS_MAX} levels deep"}


def test_skipped_complete_arrays_are_accepted() -> None:
    schema = record(p={"type": "array", "items": POINT}, d={"type": "array", "items": "double"}, i="int")
    row = {"p": [{"x": 1.0, "y": 2.0}] * 3, "d": [0.5] * 1000, "i": 5}
    assert of_registry(schema, written(row, schema)).rows.to_pylist() == [{"i": 5}]


@given(row=ROWS)
def test_records_written_by_fastavro_are_walked_to_their_end(row: dict[str, Any]) -> None:
    text = written(row)
    bounds = AvroBounds(fastavro.parse_schema(json.loads(json.dumps(SCHEMA))), skips=True)
    assert bounds.skip(bounds.schema, text, 0, 0) == len(text)


def test_records_whose_size_fastavro_bounds_are_not_walked() -> None:
    lists = record(a={"type": "array", "items": "int"}, m={"type": "map", "values": "double"}, d="double")
    assert not AvroBounds(fastavro.parse_schema(lists), skips=True).is_needed
    points = record(a={"type": "array", "items": POINT})
    assert not AvroBounds(fastavro.parse_schema(points), skips=False).is_needed
    stream = io.BytesIO(varints(MANY, 0))
    with pytest.raises(EOFError):
        fastavro.schemaless_reader(stream, points, None)
