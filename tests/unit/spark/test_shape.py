"""Rows as the options want them: columns, decoded keys and values, bad records in each way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from kraft.spark.decode.rows import ARROW_SCHEMA  # noqa: E402
from kraft.spark.decode.shape import Shaper  # noqa: E402
from kraft.spark.decode.shape_options import refuse_misspelt, shape_options  # noqa: E402
from kraft.spark.errors import SourceError  # noqa: E402 (pyarrow is an extra's)

JSON = {"valueFormat": "json", "valueSchema": "a INT, b STRING"}


def shape(include_headers: bool = False, **options: str) -> Any:
    return shape_options({name.lower(): value for name, value in options.items()}, include_headers)


def rows_of(*records: tuple[bytes | None, bytes | None]) -> Any:
    keys, values = zip(*records, strict=True) if records else ((), ())
    count = len(records)
    columns = [
        list(keys),
        list(values),
        ["t"] * count,
        [3] * count,
        list(range(10, 10 + count)),
        [None] * count,
        [0] * count,
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)],
        schema=ARROW_SCHEMA,
    )


def shaped(options: dict[str, str], *records: tuple[bytes | None, bytes | None]) -> list[dict[str, Any]]:
    return list(Shaper(shape(**options)).shaped(rows_of(*records)).to_pylist())


def test_without_value_options_rows_are_unchanged() -> None:
    assert shape(subscribe="t") is None


def test_values_become_structs_beside_the_other_columns() -> None:
    row = shaped(JSON, (b"k", b'{"a":1,"c":2}'))[0]
    assert list(row) == ARROW_SCHEMA.names
    assert row["value"] == {"a": 1, "b": None}
    assert (row["key"], row["topic"], row["offset"]) == (b"k", "t", 10)


def test_the_selected_columns_appear_in_the_selected_order() -> None:
    options = {**JSON, "keyFormat": "json", "keySchema": "id INT", "columns": "offset, value.b, key.*"}
    assert shaped(options, (b'{"id":7}', b'{"b":"x"}'), (None, None)) == [
        {"offset": 10, "b": "x", "id": 7},
        {"offset": 11, "b": None, "id": None},
    ]
    assert shaped({"columns": "topic,value"}, (b"k", b"v")) == [{"topic": "t", "value": b"v"}]


def test_a_field_in_no_selected_column_is_not_decoded() -> None:
    assert shaped({**JSON, "columns": "value.a"}, (None, b'{"a":1,"b":{}}')) == [{"a": 1}]
    assert not shape(**JSON, columns="offset").sides


def test_only_filters_on_record_columns_narrow_the_read() -> None:
    found = shape(valueFormat="json", valueSchema="offset INT, x INT", columns="value.offset,partition")
    assert [name for name in ("offset", "partition", "timestamp", "x") if found.keeps((name,))] == ["partition"]
    assert shape(**JSON).keeps(("Offset",))


RECORDS = st.lists(
    st.tuples(
        st.sampled_from([None, b'{"id":1}', b'{"id":"x"}', b"", b'{"id":2}']),
        st.sampled_from([None, b'{"a":1,"b":"x"}', b'{"a":1.5}', b"[]", b"\xff", b"null", b'{"b":3}']),
    ),
    max_size=80,
)
BOTH = {**JSON, "keyFormat": "json", "keySchema": "id INT"}


def model(text: bytes | None, names: dict[str, type]) -> tuple[dict[str, Any] | None, bool]:
    """What a text becomes, and whether it is bad, by Python's json alone."""
    try:
        found = None if text is None else json.loads(text.decode())
    except ValueError:
        return None, True
    if found is None:
        return None, False
    if not isinstance(found, dict):
        return None, True
    row: dict[str, Any] = {}
    for name, kind in names.items():
        value = found.get(name)
        row[name] = str(value) if kind is str and value is not None else value
        if kind is int and value is not None and not isinstance(value, int):
            return None, True
    return row, False


def models(records: list[Any]) -> list[tuple[Any, Any]]:
    return [(model(key, {"id": int}), model(value, {"a": int, "b": str})) for key, value in records]


@given(RECORDS)
def test_with_the_null_option_bad_records_are_null_and_others_complete(records: list[Any]) -> None:
    rows = shaped({**BOTH, "badRecords": "null"}, *records)
    assert [(row["key"], row["value"]) for row in rows] == [(key, value) for (key, _), (value, _) in models(records)]
    assert [row["offset"] for row in rows] == list(range(10, 10 + len(records)))


@given(RECORDS)
def test_with_a_bad_record_column_bad_records_keep_their_bytes_and_the_reason(records: list[Any]) -> None:
    rows = shaped({**BOTH, "badRecords": "column"}, *records)
    for row, record, ((key, is_key_bad), (value, is_value_bad)) in zip(rows, records, models(records), strict=True):
        assert (row["key"], row["value"]) == (key, value)
        if not (is_key_bad or is_value_bad):
            assert row["_bad"] is None
            continue
        kept = (record[0] if is_key_bad else None, record[1] if is_value_bad else None)
        assert (row["_bad"]["key"], row["_bad"]["value"]) == kept
        told = row["_bad"]["reason"].split("; ")
        assert [each.partition(": ")[0] for each in told] == ["key"] * is_key_bad + ["value"] * is_value_bad


@given(RECORDS)
def test_the_first_bad_record_fails_the_read_with_its_offset(records: list[Any]) -> None:
    bad = [
        (index, "key" if key[1] else "value")
        for index, (key, value) in enumerate(models(records))
        if key[1] or value[1]
    ]
    if not bad:
        assert [row["value"] for row in shaped(BOTH, *records)] == [value for _, (value, _) in models(records)]
        return
    index, side = bad[0]
    told = f"KAFKA_BAD_RECORD.*The {side} of the record at topic t partition 3 offset {10 + index} does not match"
    with pytest.raises(SourceError, match=told):
        shaped(BOTH, *records)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"valueFormat": "xml", "valueSchema": "a INT"}, "valueFormat must be one of json, avro, protobuf, got 'xml'"),
        ({"valueFormat": "json"}, "Option 'valueFormat' needs 'valueSchema'"),
        ({"keySchema": "a INT"}, "Option 'keySchema' needs 'keyFormat'"),
        ({"valueFormat": "json", "valueSchema": "a INTT"}, "Option 'valueSchema': 'INTT' is not a supported type"),
        ({"valueFormat": "json", "valueSchema": "a MAP<INT, INT>"}, "Option 'valueSchema': map keys in JSON"),
        ({"badRecords": "null"}, "Option 'badRecords' needs 'valueFormat' or 'keyFormat'"),
        ({**JSON, "badRecords": "skip"}, "badRecords must be one of fail, null, column, got 'skip'"),
        ({**JSON, "badRecords": "deadLetterTopic"}, "Option 'badRecords' cannot be deadLetterTopic: "),
        ({**JSON, "columns": "value.c"}, "Option 'columns': valueSchema has no field c; it has a, b"),
        ({**JSON, "columns": "key.id"}, "Option 'columns': key.id needs 'keyFormat'"),
        ({**JSON, "columns": "a"}, "Option 'columns' has no column a; known are key, value, topic"),
        ({**JSON, "columns": "_bad"}, "Option 'columns' has no column _bad"),
        ({"columns": "offset,,topic"}, "Option 'columns' must be column names separated by commas"),
        ({"columns": "offset,offset"}, "Option 'columns' has the column offset twice"),
        ({"columns": "headers"}, "Option 'columns': headers needs includeHeaders=true"),
    ],
)
def test_invalid_or_contradictory_options_are_refused_by_name(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        shape(**options)


def test_headers_may_be_among_the_columns() -> None:
    assert shape(include_headers=True, columns="headers").schema.names == ["headers"]


def test_a_misspelled_option_is_refused() -> None:
    for name, meant in (("valuefromat", "valueFormat"), ("colums", "columns"), ("badrecord", "badRecords")):
        with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
            refuse_misspelt(name)
    for other in ("mergeschema", "header", "inferschema"):
        refuse_misspelt(other)
