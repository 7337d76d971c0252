"""JSON into Arrow: many texts at once are what each is by itself, and each is what Python's json makes of it."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from kraft.spark.decode import json_decoder  # noqa: E402 (pyarrow is an extra's)
from kraft.spark.decode.ddl import parse_fields  # noqa: E402
from kraft.spark.decode.json_decoder import JsonDecoder, json_problem  # noqa: E402
from kraft.spark.decode.json_values import BadValue, value_of  # noqa: E402

DDL = (
    "i INT, l BIGINT, d DOUBLE, f FLOAT, b BOOLEAN, s STRING, m DECIMAL(6,2), t TIMESTAMP, n TIMESTAMP_NTZ, day DATE, "
    "a ARRAY<INT>, o STRUCT<x: INT, y: ARRAY<STRUCT<z: DATE>>>"
)
NAMES = ("i", "l", "d", "f", "b", "s", "m", "t", "n", "day", "a", "o", "x", "y", "z", "unknown")
ODD_STRINGS = st.sampled_from(
    [
        "2013-01-01",
        "2013-01-01T10:00:00Z",
        "2013-01-01 10:00:00.123456",
        "2013-01-01T10:00:00.1234567+02:00",
        "0000-01-01",
        "9999-12-31T23:59:59-05:00",
        "2013-W01-1",
        "20130101",
        "NaN",
        "-Infinity",
        "1.5",
        "1_0",
        "12345.678",
        "\ud800",
        "\n}{",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.integers(-3, 3)
    | st.floats()
    | st.text(max_size=4)
    | ODD_STRINGS
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)
TEXTS = st.builds(
    lambda value, indent, ascii_only: json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    ),
    OBJECTS,
    st.sampled_from([None, 1]),
    st.booleans(),
)
PIECES = st.lists(
    st.sampled_from(
        [b"{", b"}", b"\n", b"\r", b'"i"', b":", b"1", b",", b"[", b"]", b" ", b"\xff", b'"', b"null", b"\\"]
    ),
    max_size=9,
).map(b"".join)
CUT = st.builds(lambda text, at: text[: at % (len(text) + 1)], TEXTS, st.integers(0, 99))
TEXT = st.none() | TEXTS | CUT | PIECES | PIECES.map(lambda inside: b"{" + inside + b"}")


def one_by_one(texts: list[bytes | None], kind: Any) -> tuple[list[Any], dict[int, str]]:
    rows: list[Any] = []
    bad = {}
    for index, text in enumerate(texts):
        try:
            rows.append(None if text is None else value_of(text, kind))
        except BadValue as problem:
            rows.append(None)
            bad[index] = str(problem)
    return rows, bad


@given(st.lists(TEXT, max_size=50), st.integers(0, 3))
@example([b'{"i":1}{"i":2}', b'{"i":3}'], 0)
@example([b'{"i":1', b'"l":2}'], 0)
@example([b'{"i":1}\n{"i":2}', b""], 0)
@example([b'{"m":99999}', b'{"i":1}'], 0)
@example([b'{"t":"0000-01-01T00:00:00Z"}'], 0)
@example([b'{"n":"2013-01-01T00:00:00Z"}'], 0)
@example([b'{"f":1.00000017881393432617187499}', b'{"i":1}{}'], 0)
@example([b'{"unknown":"\xff"}'], 0)
@example([b'{"i":1,"i":null}', b'{"unknown":NaN,"d":Infinity}'], 0)
def test_many_json_texts_decode_as_each_alone(texts: list[bytes | None], skipped: int) -> None:
    kind = parse_fields(DDL)
    array = pa.array(texts, pa.binary()).slice(skipped)
    found = JsonDecoder(kind).decode(array)
    rows, bad = one_by_one(texts[skipped:], kind)
    assert found.rows.equals(pa.array(rows, kind)) or str(found.rows.to_pylist()) == str(
        pa.array(rows, kind).to_pylist()
    )
    assert found.bad == bad
    found.rows.validate(full=True)


TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "l": st.integers(-(2**63), 2**63 - 1),
        "d": st.floats(allow_nan=False, allow_infinity=False),
        "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "b": st.none() | st.booleans(),
        "s": st.text(),
        "m": st.decimals(-9999, 9999, places=2),
        "t": TIMES.map(lambda time: time.replace(tzinfo=UTC)),
        "n": TIMES,
        "day": st.none() | st.dates(),
        "a": st.lists(st.none() | st.integers(-9, 9), max_size=3),
        "o": st.fixed_dictionaries(
            {"x": st.none() | st.integers(-9, 9), "y": st.lists(st.fixed_dictionaries({"z": st.dates()}), max_size=2)}
        ),
    },
)


def as_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else str(value) if isinstance(value, Decimal) else value


@given(st.lists(FITTING, max_size=20))
def test_valid_json_values_survive_encoding_and_decoding(rows: list[dict[str, Any]]) -> None:
    kind = parse_fields(DDL)
    found = JsonDecoder(kind).decode(pa.array([json.dumps(row, default=as_json).encode() for row in rows], pa.binary()))
    assert not found.bad
    assert found.rows.to_pylist() == [{field.name: row.get(field.name) for field in kind} for row in rows]


def decoded(ddl: str, text: str) -> Any:
    return value_of(text.encode(), parse_fields(ddl))


def test_a_non_string_value_in_a_string_column_becomes_json_text_as_in_from_json() -> None:
    assert decoded("a STRING", '{"a": 1.10}') == {"a": "1.10"}
    assert decoded("a STRING", '{"a": {"b": [1e3, null, true, "x"]}}') == {"a": '{"b":[1e3,null,true,"x"]}'}


def test_maps_and_binary_values_are_decoded() -> None:
    assert decoded("a MAP<STRING, INT>", '{"a": {"x": 1, "y": null}}') == {"a": [("x", 1), ("y", None)]}
    assert decoded("a BINARY", json.dumps({"a": base64.b64encode(b"\xff").decode()})) == {"a": b"\xff"}
    assert json_problem(parse_fields("a ARRAY<MAP<INT, INT>>")) == "map keys in JSON must be strings, not int32"
    found = JsonDecoder(parse_fields("a MAP<STRING, INT>")).decode(pa.array([b'{"a":{"x":1}}'], pa.binary()))
    assert found.rows.to_pylist() == [{"a": [("x", 1)]}]


def test_decimals_are_rounded_half_up_and_numeric_seconds_are_timestamps() -> None:
    assert decoded("a DECIMAL(4,2)", '{"a": 1.555}') == {"a": Decimal("1.56")}
    assert decoded("a TIMESTAMP", '{"a": 12}') == {"a": datetime(1970, 1, 1, 0, 0, 12, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("ddl", "text", "reason"),
    [
        ("a INT", '{"a": 1.5}', "a: 1.5 is not int32"),
        ("a INT", '{"a": "1"}', 'a: "1" is not int32'),
        ("a BOOLEAN", '{"a": "true"}', 'a: "true" is not true or false'),
        ("a STRUCT<b: ARRAY<INT>>", '{"a": {"b": [1, []]}}', r"a.b\[1\]: \[\] is not int32"),
        ("a DECIMAL(4,2)", '{"a": 100}', "a: 100 is not decimal"),
        ("a INT", "[]", r"\[\] is not an object"),
        ("a INT", "", "it is not JSON"),
        ("a INT", '{"a": ' + '"' + "x" * 100 + '"}', r"x{59}\.\.\. is not int32"),
        ("a INT", "[" * 100_000, "it is not JSON"),
    ],
)
def test_the_reason_why_a_json_text_is_bad_is_reported(ddl: str, text: str, reason: str) -> None:
    with pytest.raises(BadValue, match=reason):
        decoded(ddl, text)


def test_one_bad_json_text_does_not_slow_down_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [b'{"i":%d}' % index for index in range(5000)]
    texts[1234] = b"{"
    asked: list[bytes] = []
    real = value_of
    monkeypatch.setattr(json_decoder, "value_of", lambda text, kind: (asked.append(text), real(text, kind))[1])
    found = JsonDecoder(parse_fields("i INT")).decode(pa.array(texts, pa.binary()))
    assert list(found.bad) == [1234]
    assert found.rows.flatten()[0].to_pylist() == [*range(1234), None, *range(1235, 5000)]
    assert len(asked) <= json_decoder.ONE_BY_ONE_MAX


def test_a_json_block_has_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_decoder, "BLOCK_BYTES_MAX", 1000)
    sizes: list[int] = []
    decoder = JsonDecoder(parse_fields("i INT"))
    block = decoder.block
    monkeypatch.setattr(decoder, "block", lambda texts: (sizes.append(texts.nbytes), block(texts))[1])
    found = decoder.decode(pa.array([b'{"i":%d}' % index for index in range(500)], pa.binary()))
    assert found.rows.field("i").to_pylist() == list(range(500))
    assert max(sizes) <= 1000
