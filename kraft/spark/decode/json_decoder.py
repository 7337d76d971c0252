"""Decode JSON texts to one Arrow struct column.

Arrow's reader parses a block of texts together, one text per line, with the schema given. Its result is valid row by
row only if every line holds exactly one JSON object. Each text starts with `{` and ends with `}`. A JSON object never
contains `}`, a line break and `{` in sequence, so no object spans two texts, and each text holds at least one. If the
block has as many rows as texts, each text holds exactly one.

A block that the reader rejects is halved, down to a few rows that are parsed one by one. So one odd text costs only a
few extra parses of its neighbours.
"""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from kraft.spark.decode.decoded import Decoded
from kraft.spark.decode.json_values import BadValue, value_of

BLOCK_BYTES_MAX = 8 << 20
"""Bytes of texts parsed together, unless one text is larger."""
EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY, DAYS_END = date.min.toordinal() - EPOCH, date.max.toordinal() + 1 - EPOCH
DAY_US = 86_400_000_000
ONE_BY_ONE_MAX = 32
"""A rejected block of so few rows is parsed row by row, not halved again."""


class JsonDecoder:
    """Decodes objects to one struct type. The type decides whether Arrow's reader can be used."""

    def __init__(self, kind: pa.StructType) -> None:
        self.kind = kind
        self.is_plain = all(is_plain(field.type) for field in kind)
        self.has_decimals = "decimal" in str(kind)
        self.schema = pa.schema([pa.field(field.name, carrier(field.type)) for field in kind])

    def decode(self, texts: pa.Array) -> Decoded:
        """Decode a binary column. Nulls stay null."""
        present = texts.drop_null() if texts.null_count else texts
        parts: list[pa.Array] = []
        bad: dict[int, str] = {}
        self.decode_into(parts, bad, present, 0)
        rows = pa.concat_arrays(parts) if parts else pa.array([], self.kind)
        if not texts.null_count:
            return Decoded(rows, bad)
        places = np.flatnonzero(np.asarray(texts.is_valid()))
        back = np.zeros(len(texts), np.int64)
        back[places] = np.arange(len(places))
        return Decoded(
            rows.take(pa.array(back, mask=np.asarray(texts.is_null()))),
            {int(places[index]): reason for index, reason in bad.items()},
        )

    def decode_into(self, parts: list[pa.Array], bad: dict[int, str], texts: pa.Array, first: int) -> None:
        count = len(texts)
        if not count:
            return
        if self.is_plain:
            if texts.nbytes <= BLOCK_BYTES_MAX or count == 1:
                block = self.block(texts)
                if block is not None:
                    parts.append(block)
                    return
            if count > ONE_BY_ONE_MAX or (texts.nbytes > BLOCK_BYTES_MAX and count > 1):
                half = count // 2
                self.decode_into(parts, bad, texts.slice(0, half), first)
                self.decode_into(parts, bad, texts.slice(half), first + half)
                return
        rows = []
        for index, text in enumerate(texts.to_pylist(), first):
            try:
                rows.append(value_of(text, self.kind))
            except BadValue as problem:
                rows.append(None)
                bad[index] = str(problem)
        parts.append(pa.array(rows, self.kind))

    def block(self, texts: pa.Array) -> pa.StructArray | None:
        """Parse all rows with Arrow's reader. None if they have to be parsed in smaller blocks or one by one."""
        if not are_braced(texts):
            return None
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), b"\n")
        data = lines.buffers()[2]
        try:
            lines.cast(pa.string())  # Arrow's reader does not check UTF-8.
            table = arrow_json.read_json(
                pa.BufferReader(data),
                arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                arrow_json.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="ignore"),
            )
            if table.num_rows != len(texts):
                return None
            columns = [
                column.combine_chunks().cast(field.type) for column, field in zip(table.columns, self.kind, strict=True)
            ]
            block = pa.StructArray.from_arrays(columns, fields=list(self.kind))
            if self.has_decimals:
                block.validate(full=True)  # The reader does not count their digits.
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        return block if are_in_calendar(block) else None


def are_braced(texts: pa.Array) -> bool:
    """Whether each text starts with `{` and ends with `}`."""
    _, bounds, data = texts.buffers()
    if data is None:
        return False
    ends = np.frombuffer(bounds, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if (np.diff(ends) < 2).any():
        return False
    view = np.frombuffer(data, np.uint8)
    return bool((view[ends[:-1]] == ord("{")).all() and (view[ends[1:] - 1] == ord("}")).all())


def are_in_calendar(column: pa.Array) -> bool:
    """Whether all times are in the years 1 to 9999, the range of Python and Spark."""
    kind = column.type
    if pa.types.is_struct(kind):
        return all(map(are_in_calendar, column.flatten()))
    if pa.types.is_list(kind):
        return are_in_calendar(column.flatten())
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return True
    whole = pa.int32() if pa.types.is_date(kind) else pa.int64()
    found = pc.min_max(column.cast(whole)).as_py()
    unit = 1 if pa.types.is_date(kind) else DAY_US
    return found["min"] is None or (FIRST_DAY * unit <= found["min"] and found["max"] < DAYS_END * unit)


def is_plain(kind: pa.DataType) -> bool:
    """Whether Arrow's reader reads the type like `json_values`, after a cast from its carrier type."""
    if pa.types.is_struct(kind):
        return all(is_plain(field.type) for field in kind)
    if pa.types.is_list(kind):
        return is_plain(kind.value_type)
    return not (pa.types.is_map(kind) or pa.types.is_binary(kind))


def carrier(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow's reader parses a value as before the cast. Arrow's reader does not support dates, and
    ignores the zone of a time that must not have one. So both are read as strings."""
    if pa.types.is_date(kind) or kind == pa.timestamp("us"):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, carrier(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", carrier(kind.value_type)))
    return kind


def json_problem(kind: pa.DataType) -> str | None:
    """Return why the type cannot be read from JSON; None if it can."""
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            return f"map keys in JSON must be strings, not {kind.key_type}"
        return json_problem(kind.item_type)
    if pa.types.is_list(kind):
        return json_problem(kind.value_type)
    if pa.types.is_struct(kind):
        return next((problem for field in kind if (problem := json_problem(field.type)) is not None), None)
    return None
