"""The options that define the rows of a read: `columns`, formats and schemas of keys and values, and the handling of
records that do not match. Checked on the driver, before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kraft.spark.option_values import choice

if TYPE_CHECKING:
    from kraft.spark.decode.shape import Shape, Side

SHAPE_NAMES = ("valueFormat", "valueSchema", "keyFormat", "keySchema", "columns", "badRecords")
SHAPE_KEYS = tuple(name.lower() for name in SHAPE_NAMES)
FORMATS = ("json", "avro", "protobuf")
WANTED = {
    "json": "DDL, or a JSON schema",
    "avro": "an .avsc schema, its path, or a registry's URL",
    "protobuf": "the path of a descriptor file and a message, as flights.desc#shop.Flight",
}
BAD_RECORDS = ("fail", "null", "column")
"""The first is the default: no record is skipped silently."""
ALIKE = 0.85


def refuse_misspelt(name: str) -> None:
    """Raise ValueError for a name similar to one of these options: a misspelt option would silently change the rows."""
    near = difflib.get_close_matches(name, SHAPE_KEYS, 1, ALIKE)
    if near:
        meant = SHAPE_NAMES[SHAPE_KEYS.index(near[0])]
        raise ValueError(f"Option '{name}' is not one of this source's; did you mean '{meant}'?")


def shape_options(given: Mapping[str, str], include_headers: bool) -> Shape | None:
    """Return the shape of the rows; None if they stay unchanged. `given` has lower-case names. Raises ValueError that
    names the option."""
    if not any(key in given for key in SHAPE_KEYS):
        return None
    from kraft.spark.decode.shape import shape_of

    key, value = side_of(given, "key"), side_of(given, "value")
    if "badrecords" in given and key is None and value is None:
        raise ValueError("Option 'badRecords' needs 'valueFormat' or 'keyFormat': without them no record is decoded")
    return shape_of(key, value, bad_records(given), columns_of(given), include_headers)


def side_of(given: Mapping[str, str], side: str) -> Side | None:
    """Return what keys or values are decoded to; None if they stay bytes."""
    format_name, schema_name = f"{side}Format", f"{side}Schema"
    text = given.get(schema_name.lower())
    if format_name.lower() not in given:
        if text is not None:
            raise ValueError(f"Option '{schema_name}' needs '{format_name}'")
        return None
    form = choice(given, format_name, FORMATS, FORMATS[0])
    if text is None or not text.strip():
        raise ValueError(f"Option '{format_name}' needs '{schema_name}': {WANTED[form]}")
    try:
        if form == "protobuf":
            return protobuf_side(side, text)
        return json_side(side, text) if form == "json" else avro_side(side, text, given)
    except ValueError as wrong:
        raise ValueError(f"Option '{schema_name}': {wrong}") from None


def json_side(side: str, text: str) -> Side:
    from kraft.spark.decode.json_decoder import json_problem
    from kraft.spark.decode.shape import Side
    from kraft.spark.decode.typed_schema import schema_of

    kind = schema_of(text)
    problem = json_problem(kind)
    if problem is not None:
        raise ValueError(problem)
    return Side(name=side, kind=kind)


def avro_side(side: str, text: str, given: Mapping[str, str]) -> Side:
    """Return the decoding of Avro. Unless a registry's URL names the subject, it is `<topic>-value` (or `-key`) of the
    single topic."""
    from kraft.spark.decode.avro_schema import AvroSchemas, arrow_types, read_avsc
    from kraft.spark.decode.schema_registry import is_registry, schemas_of
    from kraft.spark.decode.shape import Side

    if is_registry(text):
        topic = given.get("subscribe", "").strip()
        schemas = schemas_of(text, f"{topic}-{side}" if topic and "," not in topic else None)
    else:
        schemas = AvroSchemas(reader=read_avsc(text))
    return Side(name=side, kind=arrow_types(schemas.reader)[0], schema=schemas)


def protobuf_side(side: str, text: str) -> Side:
    from kraft.spark.decode.protobuf_schema import arrow_type, message_of, read_descriptors
    from kraft.spark.decode.shape import Side

    schema = read_descriptors(text)
    return Side(name=side, kind=arrow_type(message_of(schema).DESCRIPTOR), schema=schema)


def bad_records(given: Mapping[str, str]) -> str:
    if given.get("badrecords", "").strip().lower() == "deadlettertopic":
        raise ValueError(
            "Option 'badRecords' cannot be deadLetterTopic: a source reads a range again whenever a task fails, and "
            "would write its bad records again. Set it to column, and write the rows that have _bad where you want them"
        )
    return choice(given, "badRecords", BAD_RECORDS, BAD_RECORDS[0])


def columns_of(given: Mapping[str, str]) -> tuple[str, ...] | None:
    text = given.get("columns")
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"Option 'columns' must be column names separated by commas, got '{text}'")
    return names
