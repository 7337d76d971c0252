"""Records of Protobuf as columns, beside what the library's own JSON of each says; and what hostile ones become."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import descriptor_pb2, json_format, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from kraft.spark.decode import protobuf_decoder, protobuf_schema
from kraft.spark.decode.protobuf_decoder import ProtobufDecoder
from kraft.spark.decode.protobuf_schema import (
    BOOL,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED32,
    FIXED64,
    FLOAT,
    INT32,
    INT64,
    MESSAGE,
    REPEATED,
    SFIXED32,
    SFIXED64,
    SINT32,
    SINT64,
    STRING,
    TIMESTAMP,
    UINT32,
    UINT64,
    ProtobufSchema,
    arrow_type,
    message_of,
)
from kraft.spark.decode.shape_options import shape_options

Scalars = Mapping[str, tuple[int, st.SearchStrategy[Any]]]
SIGNED_32, SIGNED_64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
UNSIGNED_32, UNSIGNED_64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
SCALARS: Scalars = {
    "a_double": (DOUBLE, st.floats(allow_nan=False, allow_infinity=False)),
    "a_float": (FLOAT, st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "an_int32": (INT32, SIGNED_32),
    "a_sint32": (SINT32, SIGNED_32),
    "a_sfixed32": (SFIXED32, SIGNED_32),
    "an_int64": (INT64, SIGNED_64),
    "a_sint64": (SINT64, SIGNED_64),
    "a_sfixed64": (SFIXED64, SIGNED_64),
    "a_uint32": (UINT32, UNSIGNED_32),
    "a_fixed32": (FIXED32, UNSIGNED_32),
    "a_uint64": (UINT64, UNSIGNED_64),
    "a_fixed64": (FIXED64, UNSIGNED_64),
    "a_bool": (BOOL, st.booleans()),
    "a_string": (STRING, st.text(st.characters(codec="utf-8"))),
    "some_bytes": (BYTES, st.binary()),
    "an_enum": (ENUM, st.sampled_from([0, 1, 2])),
}
NUMBERS_OF_JSON = (INT64, SINT64, SFIXED64, UINT64, FIXED64)
"""JSON has them as text."""


def file_of() -> descriptor_pb2.FileDescriptorProto:
    """shop.proto: Flight has each scalar plain, in a oneof's stead optional, and repeated; a message, a time, maps."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("UNKNOWN", "CARGO", "PEOPLE")):
        kind.value.add(name=name, number=number)
    stop = file.message_type.add(name="Stop")
    stop.field.add(name="airport", number=1, type=STRING, label=1)
    stop.field.add(name="delays", number=2, type=INT32, label=REPEATED)
    flight = file.message_type.add(name="Flight")
    for number, (name, (scalar, _)) in enumerate(SCALARS.items(), 1):
        flight.field.add(name=name, number=number, type=scalar, label=1)
        flight.field.add(name=f"many_{name}", number=100 + number, type=scalar, label=REPEATED)
        optional = flight.field.add(name=f"maybe_{name}", number=200 + number, type=scalar, label=1)
        optional.proto3_optional = True
        optional.oneof_index = number - 1
        flight.oneof_decl.add(name=f"_maybe_{name}")
        entry = flight.nested_type.add(name="ByNameEntry") if scalar == ENUM else None
        if entry is not None:
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=STRING, label=1)
            entry.field.add(name="value", number=2, type=MESSAGE, label=1, type_name=".shop.Stop")
            flight.field.add(
                name="by_name", number=300, type=MESSAGE, label=REPEATED, type_name=f".shop.Flight.{entry.name}"
            )
    for each in flight.field:
        if each.type == ENUM:
            each.type_name = ".shop.Kind"
    flight.field.add(name="first", number=301, type=MESSAGE, label=1, type_name=".shop.Stop")
    flight.field.add(name="stops", number=302, type=MESSAGE, label=REPEATED, type_name=".shop.Stop")
    flight.field.add(name="at", number=303, type=MESSAGE, label=1, type_name=f".{TIMESTAMP}")
    return file


def schema_of(*files: descriptor_pb2.FileDescriptorProto, message: str = "shop.Flight") -> ProtobufSchema:
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    whole = descriptor_pb2.FileDescriptorSet(file=[times, *files])
    return ProtobufSchema(message=message, descriptors=whole.SerializeToString())


SCHEMA = schema_of(file_of())
FLIGHT: Any = message_of(SCHEMA)
KIND = arrow_type(FLIGHT.DESCRIPTOR)


def rows_of(*texts: bytes | None, schema: ProtobufSchema = SCHEMA) -> tuple[list[Any], dict[int, str]]:
    kind = arrow_type(message_of(schema).DESCRIPTOR)
    found = ProtobufDecoder(kind, schema).decode(pa.array(texts, pa.binary()))
    found.rows.validate(full=True)
    return found.rows.to_pylist(), found.bad


def as_text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def as_json_has_it(row: dict[str, Any]) -> dict[str, Any]:
    """The row in the words of the library's JSON: 64-bit numbers and bytes are text, what is null is left out."""
    said: dict[str, Any] = {}
    for name, value in row.items():
        scalar = name.removeprefix("many_").removeprefix("maybe_")
        kind = SCALARS[scalar][0] if scalar in SCALARS else None
        if value is None:
            continue
        one: Callable[[Any], str] | None = str if kind in NUMBERS_OF_JSON else as_text if kind == BYTES else None
        if name == "at":
            said[name] = value
        elif name == "by_name":
            said[name] = dict(value)
        elif one is not None:
            said[name] = [one(each) for each in value] if isinstance(value, list) else one(value)
        else:
            said[name] = value
    return said


@st.composite
def flights(draw: st.DrawFn) -> Any:
    flight = FLIGHT()
    for name, (_, values) in SCALARS.items():
        for field in draw(st.sets(st.sampled_from([name, f"maybe_{name}"]))):
            setattr(flight, field, draw(values))
        getattr(flight, f"many_{name}").extend(draw(st.lists(values, max_size=3)))
    for airport in draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=3), max_size=3)):
        flight.stops.add(airport=airport, delays=[1, -1])
        flight.by_name[airport].airport = airport
    if draw(st.booleans()):
        flight.first.SetInParent()
    if draw(st.booleans()):
        flight.at.seconds, flight.at.nanos = draw(st.integers(-62_135_596_800, 253_402_300_799)), 1_000
    return flight


@given(flights())
def test_protobuf_records_decode_as_in_the_library(flight: Any) -> None:
    ((row,), bad) = rows_of(flight.SerializeToString())
    assert bad == {}
    expected = json_format.MessageToDict(
        flight, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    said = as_json_has_it(row)
    at = said.pop("at", None)
    assert (at is not None) == ("at" in expected)
    if at is not None:
        assert at.isoformat()[:19] == expected.pop("at")[:19]
        assert at.microsecond == 1
    for name in ("a_float", "maybe_a_float", "many_a_float"):  # JSON has as few digits as tell it apart.
        assert said.pop(name, None) == (getattr(flight, name) if name in expected else None) or name == "many_a_float"
        expected.pop(name, None)
    assert said == expected


def test_spark_types_hold_the_whole_range_of_protobuf_numbers() -> None:
    assert KIND.field("a_uint32").type == pa.int64()
    assert KIND.field("a_uint64").type == pa.decimal128(20, 0)
    assert KIND.field("at").type == pa.timestamp("us", tz="UTC")
    assert KIND.field("by_name").type.item_type == KIND.field("first").type
    assert KIND.field("stops").type.value_type.field("delays").type.value_type == pa.int32()


def test_null_empty_and_unknown_fields_are_decoded_and_invalid_messages_are_bad() -> None:
    rows, bad = rows_of(None, b"", b"\x98\x7d\x01", b"\x08", b"\xff" * 12)
    assert rows[0] is None
    assert rows[1] == rows[2]
    assert (rows[1]["an_int32"], rows[1]["maybe_an_int32"], rows[1]["first"]) == (0, None, None)
    assert sorted(bad) == [3, 4]
    assert rows[3:] == [None, None]


def test_an_unknown_enum_value_decodes_to_its_number() -> None:
    ((row,), _) = rows_of(FLIGHT(an_enum=7, many_an_enum=[1, 9]).SerializeToString())
    assert (row["an_enum"], row["many_an_enum"]) == ("7", ["CARGO", "9"])


def test_a_timestamp_outside_the_calendar_is_bad() -> None:
    for seconds, nanos in ((253_402_300_800, 0), (-62_135_596_801, 0), (2**62, 0), (0, -1), (0, 10**9)):
        flight = FLIGHT()
        flight.at.seconds, flight.at.nanos = seconds, nanos
        rows, bad = rows_of(flight.SerializeToString())
        assert (rows, list(bad)) == ([None], [0])
        assert "years 1 to 9999" in bad[0]


def test_empty_messages_and_items_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_decoder, "VALUES_MAX", 200)
    few, many, numbers, names = FLIGHT(), FLIGHT(), FLIGHT(many_an_int32=range(300)), FLIGHT()
    few.stops.add()
    for number in range(100):
        many.stops.add()
        names.by_name[str(number)].SetInParent()
    _, bad = rows_of(*(each.SerializeToString() for each in (few, many, numbers, names)))
    assert bad == dict.fromkeys((1, 2, 3), "more than 200 values")


def nested(levels: int) -> bytes:
    """Unknown groups within one another."""
    return b"\xa3\x3f" * levels


def test_the_nesting_of_groups_is_limited() -> None:
    _, bad = rows_of(nested(1_000_000))
    assert list(bad) == [0]


def test_proto2_text_that_is_not_utf_8_is_bad() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", package="old", syntax="proto2")
    old = file.message_type.add(name="Old")
    old.field.add(name="text", number=1, type=STRING, label=1)
    old.field.add(name="needed", number=2, type=INT32, label=2)
    schema = schema_of(file, message="old.Old")
    rows, bad = rows_of(b"\x0a\x01a\x10\x01", b"\x0a\x01\xff\x10\x01", b"\x0a\x01a", b"\x10\x01", schema=schema)
    assert (rows[0], rows[3]) == ({"text": "a", "needed": 1}, {"text": None, "needed": 1})
    assert sorted(bad) == [1, 2]


def test_only_selected_fields_are_decoded() -> None:
    flight = FLIGHT(an_int32=5)
    flight.at.seconds = 2**62
    kind = pa.struct([KIND.field("an_int32")])
    found = ProtobufDecoder(kind, SCHEMA).decode(pa.array([flight.SerializeToString()], pa.binary()))
    assert (found.rows.to_pylist(), found.bad) == ([{"an_int32": 5}], {})


def refused(schema: ProtobufSchema) -> str:
    with pytest.raises(ValueError) as problem:
        arrow_type(message_of(schema).DESCRIPTOR)
    return str(problem.value)


def test_unreadable_schemas_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = descriptor_pb2.FileDescriptorProto(name="loop.proto", package="loop", syntax="proto3")
    loop.message_type.add(name="A").field.add(name="b", number=1, type=MESSAGE, label=1, type_name=".loop.B")
    loop.message_type.add(name="B").field.add(name="a", number=1, type=MESSAGE, label=1, type_name=".loop.A")
    empty = loop.message_type.add(name="Empty")
    assert "contains itself" in refused(schema_of(loop, message="loop.A"))
    assert "at least one field" in refused(schema_of(loop, message=f"loop.{empty.name}"))
    assert "no message shop.Boat; it has" in refused(schema_of(file_of(), message="shop.Boat"))
    assert "not a descriptor file" in refused(ProtobufSchema(message="a", descriptors=b"\xff"))
    alone = descriptor_pb2.FileDescriptorSet(file=[file_of()])
    assert "--include_imports" in refused(ProtobufSchema(message="shop.Flight", descriptors=alone.SerializeToString()))
    monkeypatch.setattr(protobuf_schema, "FIELDS_MAX", 10)
    assert "10 fields in total" in refused(SCHEMA)


def test_the_protobuf_option_names_a_file_and_a_message(tmp_path: Path) -> None:
    path = tmp_path / "shop.desc"
    path.write_bytes(SCHEMA.descriptors)
    shape = shape_options(
        {"valueformat": "protobuf", "valueschema": f"{path}#shop.Flight", "columns": "value.an_int32"}, False
    )
    assert shape is not None
    assert shape.schema.field("an_int32").type == pa.int32()
    for wrong, words in (
        (str(path), "flights.desc#shop.Flight"),
        ("shop.Flight", "flights.desc#shop.Flight"),
        (f"{tmp_path}/none.desc#shop.Flight", "cannot be read"),
        (f"{path}#shop.Boat", "no message shop.Boat"),
    ):
        with pytest.raises(ValueError, match=words):
            shape_options({"valueformat": "protobuf", "valueschema": wrong}, False)
    with pytest.raises(ValueError, match="needs 'valueSchema': the path of a descriptor file"):
        shape_options({"valueformat": "protobuf"}, False)
