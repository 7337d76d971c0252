"""Rows as the options want them: keys and values decoded to structs, and only the columns that were asked for.

It comes after whichever client reads, batch by batch, and knows rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kraft.spark.decode.decoded import Decoded
from kraft.spark.decode.json_decoder import JsonDecoder
from kraft.spark.decode.rows import arrow_schema
from kraft.spark.errors import bad_record

if TYPE_CHECKING:
    from kraft.spark.decode.avro_decoder import AvroDecoder
    from kraft.spark.decode.avro_schema import AvroSchemas
    from kraft.spark.decode.protobuf_decoder import ProtobufDecoder
    from kraft.spark.decode.protobuf_schema import ProtobufSchema

BAD = "_bad"
BAD_TYPE = pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary()), pa.field("reason", pa.string())])
"""A bad record: those of its bytes that did not fit, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Keys, or values, and what they are decoded to."""

    name: str
    kind: pa.StructType
    schema: AvroSchemas | ProtobufSchema | None = None
    """None: it is JSON."""

    def decoder(self) -> JsonDecoder | AvroDecoder | ProtobufDecoder:
        from kraft.spark.decode.protobuf_schema import ProtobufSchema

        if self.schema is None:
            return JsonDecoder(self.kind)
        if isinstance(self.schema, ProtobufSchema):
            from kraft.spark.decode.protobuf_decoder import ProtobufDecoder

            return ProtobufDecoder(self.kind, self.schema)
        from kraft.spark.decode.avro_decoder import AvroDecoder

        return AvroDecoder(self.kind, self.schema)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the result: one of the row's, or a field of the struct that it is decoded to."""

    name: str
    source: str
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What rows become. `sides` hold those fields alone that some column shows. Pickled to the workers."""

    sides: tuple[Side, ...]
    bad_records: str
    columns: tuple[Column, ...]
    schema: pa.Schema

    def keeps(self, attribute: Sequence[str]) -> bool:
        """Whether a filter's column is one of the record's own, which offsets and times can be told from."""
        return any(
            column.name.lower() == attribute[0].lower() and column.field is None and column.source == column.name
            for column in self.columns
        )


def shape_of(
    key: Side | None,
    value: Side | None,
    bad_records: str,
    names: tuple[str, ...] | None,
    include_headers: bool,
) -> Shape:
    """Raises ValueError for columns that are not there, or are there twice."""
    base = arrow_schema(include_headers)
    kinds = {side.name: side.kind for side in (key, value) if side is not None}
    types = {field.name: kinds.get(field.name, field.type) for field in base}
    if bad_records == "column":
        types[BAD] = BAD_TYPE
    columns = [column for name in names or types for column in expanded(name, types, kinds, include_headers)]
    if bad_records == "column" and not any(column.source == BAD for column in columns):
        columns.append(Column(BAD, BAD))
    seen: dict[str, Column] = {}
    for column in columns:
        if column.name.lower() in seen:
            raise ValueError(f"Option 'columns' has the column {column.name} twice (Spark takes a and A for one)")
        seen[column.name.lower()] = column
    sides = tuple(needed(side, columns) for side in (key, value) if side is not None)
    return Shape(
        sides=tuple(side for side in sides if len(side.kind)),
        bad_records=bad_records,
        columns=tuple(columns),
        schema=pa.schema([pa.field(column.name, type_of(column, types)) for column in columns]),
    )


def expanded(
    name: str, types: dict[str, pa.DataType], kinds: dict[str, pa.StructType], include_headers: bool
) -> Iterator[Column]:
    """The columns that one name of `columns` stands for. Raises ValueError."""
    if name in types:
        yield Column(name, name)
        return
    side, dot, field = name.partition(".")
    if dot and side in kinds:
        fields = [each.name for each in kinds[side]]
        if field == "*":
            yield from (Column(each, side, each) for each in fields)
        elif field in fields:
            yield Column(field, side, field)
        else:
            raise ValueError(f"Option 'columns': {side}Schema has no field {field}, but {', '.join(fields)}")
        return
    if dot and side in ("key", "value"):
        raise ValueError(f"Option 'columns': {name} needs '{side}Format'")
    if name == "headers" and not include_headers:
        raise ValueError("Option 'columns': headers needs includeHeaders=true")
    raise ValueError(
        f"Option 'columns' has no column {name}; there are {', '.join(types)}, and fields as value.<field>"
    )


def type_of(column: Column, types: dict[str, pa.DataType]) -> pa.DataType:
    kind = types[column.source]
    return kind if column.field is None else kind.field(column.field).type


def needed(side: Side, columns: Sequence[Column]) -> Side:
    """The side with those fields alone that are shown."""
    shown = [column.field for column in columns if column.source == side.name]
    return side if None in shown else replace(side, kind=pa.struct([f for f in side.kind if f.name in shown]))


class Shaper:
    """Makes the rows of one task."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.decoders = {side.name: side.decoder() for side in shape.sides}

    def shaped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Raises SourceError for a bad record, if such records are to end the read."""
        decoded = {name: decoder.decode(rows.column(name)) for name, decoder in self.decoders.items()}
        if self.shape.bad_records == "fail":
            refuse_bad(rows, decoded)
        arrays = []
        for column in self.shape.columns:
            if column.source == BAD:
                arrays.append(bad_column(rows, decoded))
            elif column.field is not None:
                arrays.append(field_of(decoded[column.source].rows, column.field))
            else:
                found = decoded.get(column.source)
                arrays.append(rows.column(column.source) if found is None else found.rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.shape.schema)


def field_of(structs: pa.StructArray, name: str) -> pa.Array:
    """The field by row; null where the struct is."""
    return structs.flatten()[structs.type.get_field_index(name)]


def refuse_bad(rows: pa.RecordBatch, decoded: dict[str, Decoded]) -> None:
    """Tells the first bad record. Raises SourceError."""
    found = [(index, side, reason) for side, each in decoded.items() for index, reason in each.bad.items()]
    if found:
        index, side, reason = min(found)
        topic, partition, offset = (rows.column(name)[index].as_py() for name in ("topic", "partition", "offset"))
        raise bad_record(side, topic, partition, offset, reason)


def bad_column(rows: pa.RecordBatch, decoded: dict[str, Decoded]) -> pa.Array:
    """For each row what was bad about it; null where nothing was."""
    found: list[dict[str, object] | None] = [None] * rows.num_rows
    for side, each in decoded.items():
        for index, reason in each.bad.items():
            entry = found[index] or {"key": None, "value": None, "reason": None}
            told = f"{side}: {reason}"
            entry[side] = rows.column(side)[index].as_py()
            entry["reason"] = told if entry["reason"] is None else f"{entry['reason']}; {told}"
            found[index] = entry
    return pa.array(found, BAD_TYPE)
