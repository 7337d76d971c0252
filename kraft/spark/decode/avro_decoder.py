"""Decode Avro records to one Arrow struct column. fastavro reads each record; Arrow builds the columns of all."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.read import SchemaResolutionError

from kraft.spark.decode.avro_bounds import AvroBounds
from kraft.spark.decode.avro_schema import AvroSchemas, arrow_types, only_fields, parsed
from kraft.spark.decode.decoded import Decoded, decode_each

MAGIC = 0
HEADER_SIZE = 5
"""The zero byte and the schema id before a record written with a schema registry."""
UNREADABLE = (EOFError, ValueError, LookupError, TypeError, ArithmeticError, SchemaResolutionError)
"""Exceptions of fastavro for bytes that do not match the schema."""


class AvroDecoder:
    """Decodes records to the fields of `kind`, which may be a part of the schema's fields."""

    def __init__(self, kind: pa.StructType, schemas: AvroSchemas) -> None:
        names = [field.name for field in kind]
        self.kind = kind
        self.built = pa.struct([field for field in arrow_types(schemas.reader)[1] if field.name in names])
        self.subject = schemas.subject
        whole = parsed(schemas.reader)
        self.reader = parsed(json.dumps(only_fields(whole, names))) if len(names) < len(whole["fields"]) else whole
        self.plain = whole if schemas.writers is None else None
        self.writers = {number: parsed(text) for number, text in (schemas.writers or {}).items()}
        by_id: list[tuple[int | None, Any]] = [(None, self.plain), *self.writers.items()]
        self.bounds = {
            number: bounds
            for number, writer in by_id
            if writer is not None and (bounds := AvroBounds(writer, skips=writer != self.reader)).is_needed
        }
        """The checks by schema id, for schemas that need them."""

    def decode(self, texts: pa.Array) -> Decoded:
        """Decode a binary column. Nulls stay null."""
        rows, bad = decode_each(texts, self.record, UNREADABLE)
        return Decoded(self.column(rows, bad), bad)

    def record(self, text: bytes) -> dict[str, Any]:
        """Decode one record. Raises one of UNREADABLE."""
        stream, number, writer = io.BytesIO(text), None, self.plain
        if writer is None:
            number = self.writer_of(text)
            writer = self.writers[number]
            stream.seek(HEADER_SIZE)
        if number in self.bounds:
            self.bounds[number].check(text, stream.tell())
        found = fastavro.schemaless_reader(stream, writer, None if writer == self.reader else self.reader)
        if stream.tell() != len(text):
            raise ValueError(f"{len(text) - stream.tell()} bytes follow the record")
        assert isinstance(found, dict)
        return found

    def writer_of(self, text: bytes) -> int:
        """Return the schema id in the record's header. Raises ValueError."""
        if len(text) < HEADER_SIZE or text[0] != MAGIC:
            raise ValueError("it does not start with a schema registry's header (a zero byte and a schema id)")
        number = int.from_bytes(text[1:HEADER_SIZE], "big")
        if number not in self.writers:
            known = ", ".join(map(str, sorted(self.writers)))
            raise ValueError(
                f"schema id {number} was not in the subject {self.subject} ({known}) when the query started"
            )
        return number

    def column(self, rows: list[dict[str, Any] | None], bad: dict[int, str]) -> pa.Array:
        """Build the column in one step, or row by row if a value does not fit its type, such as a decimal with too many
        digits."""
        try:
            return pa.array(rows, self.built).cast(self.kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
        for index, row in enumerate(rows):
            try:
                pa.array([row], self.built).cast(self.kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as problem:
                rows[index], bad[index] = None, str(problem)
        return pa.array(rows, self.built).cast(self.kind)
