"""Convert rows to the requested columns: keys and values are decoded to structs, and only the requested columns are
kept.

This runs on the rows of either client, batch by batch.
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
"""A bad record: the bytes that could not be decoded, and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Keys or values, and the type that they are decoded to."""

    name: str
    kind: pa.StructType
    schema: AvroSchemas | ProtobufSchema | None = None
    """The schema of Avro or Protobuf; None for JSON."""

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
    """A column of the result: a column of the row, or a field of a decoded struct."""

    name: str
    source: str
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The requested columns and their decoding. `sides` hold only fields that some column shows. Pickled to the
    workers."""

    sides: tuple[Side, ...]
    bad_records: str
    columns: tuple[Column, ...]
    schema: pa.Schema

    def keeps(self, attribute: Sequence[str]) -> bool:
        """Whether the filter's column is an unchanged column of the record. Only then can the filter narrow offsets and
        times."""
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
    """Return the shape for the given options. Raises ValueError for a column that does not exist, or occurs twice."""
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
            raise ValueError(
                f"Option 'columns' has the column {column.name} twice (Spark ignores the case of column names)"
            )
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
    """Return the columns that one entry of `columns` stands for. Raises ValueError."""
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
            raise ValueError(f"Option 'columns': {side}Schema has no field {field}; it has {', '.join(fields)}")
        return
    if dot and side in ("key", "value"):
        raise ValueError(f"Option 'columns': {name} needs '{side}Format'")
    if name == "headers" and not include_headers:
        raise ValueError("Option 'columns': headers needs includeHeaders=true")
    raise ValueError(
        f"Option 'columns' has no column {name}; known are {', '.join(types)}, and fields as value.<field>"
    )


def type_of(column: Column, types: dict[str, pa.DataType]) -> pa.DataType:
    kind = types[column.source]
    return kind if column.field is None else kind.field(column.field).type


def needed(side: Side, columns: Sequence[Column]) -> Side:
    """Return the side with only the fields that some column shows."""
    shown = [column.field for column in columns if column.source == side.name]
    return side if None in shown else replace(side, kind=pa.struct([f for f in side.kind if f.name in shown]))


class Shaper:
    """Converts the rows of one task."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.decoders = {side.name: side.decoder() for side in shape.sides}

    def shaped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of rows. Raises SourceError for a bad record if the option says to fail."""
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
    """Return the field of each row; null where the struct is null."""
    return structs.flatten()[structs.type.get_field_index(name)]


def refuse_bad(rows: pa.RecordBatch, decoded: dict[str, Decoded]) -> None:
    """Raise SourceError for the first bad record, if there is one."""
    found = [(index, side, reason) for side, each in decoded.items() for index, reason in each.bad.items()]
    if found:
        index, side, reason = min(found)
        topic, partition, offset = (rows.column(name)[index].as_py() for name in ("topic", "partition", "offset"))
        raise bad_record(side, topic, partition, offset, reason)


def bad_column(rows: pa.RecordBatch, decoded: dict[str, Decoded]) -> pa.Array:
    """Return the error of each row; null for a good row."""
    found: list[dict[str, object] | None] = [None] * rows.num_rows
    for side, each in decoded.items():
        for index, reason in each.bad.items():
            entry = found[index] or {"key": None, "value": None, "reason": None}
            told = f"{side}: {reason}"
            entry[side] = rows.column(side)[index].as_py()
            entry["reason"] = told if entry["reason"] is None else f"{entry['reason']}; {told}"
            found[index] = entry
    return pa.array(found, BAD_TYPE)
