"""Decode Protocol Buffers records to one Arrow struct column. The protobuf library reads each record; Arrow builds the
columns.

The library limits nesting to 100 messages, and items to the bytes of the record. It does not limit the width: an empty
message takes two bytes but has all its fields. So values are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from kraft.spark.decode.decoded import Decoded, decode_each
from kraft.spark.decode.protobuf_schema import (
    ENUM,
    GROUP,
    MESSAGE,
    STRING,
    TIMESTAMP,
    ProtobufSchema,
    is_map,
    kind_of,
    message_of,
)

VALUES_MAX = 1_000_000
"""The limit of values in a record, including unset fields."""
UNREADABLE = (DecodeError, ValueError, TypeError, OverflowError)
MICROS = 1_000_000
FIRST_SECOND = int(datetime(1, 1, 1, tzinfo=UTC).timestamp())
LAST_SECOND = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
Read = Callable[[Any], Any]


class ProtobufDecoder:
    """Decodes records to the fields of `kind`, which may be a part of the message's fields."""

    def __init__(self, kind: pa.StructType, schema: ProtobufSchema) -> None:
        self.kind = kind
        self.message = message_of(schema)
        self.values = 0  # Of the record that is being read.
        self.read = self.reader(self.message.DESCRIPTOR, {field.name for field in kind})

    def decode(self, texts: pa.Array) -> Decoded:
        """Decode a binary column. Nulls stay null."""
        rows, bad = decode_each(texts, self.record, UNREADABLE)
        return Decoded(pa.array(rows, self.kind), bad)

    def record(self, text: bytes) -> dict[str, Any]:
        """Decode one record. Raises one of UNREADABLE."""
        self.values = 0
        message = self.message.FromString(text)
        if not message.IsInitialized():
            raise ValueError(f"it lacks required fields: {', '.join(message.FindInitializationErrors())}")
        found = self.read(message)
        assert isinstance(found, dict)
        return found

    def reader(self, message: Any, names: set[str] | None = None) -> Read:
        """Return the function that converts a message to a dict of the named fields, or of all."""
        if message.full_name == TIMESTAMP:
            return micros_of
        fields = [field for field in message.fields if names is None or field.name in names]
        parts = [(field.name, self.field_reader(field), has_presence(field)) for field in fields]

        def read(found: Any) -> dict[str, Any]:
            self.count(len(parts))
            return {
                name: None if is_optional and not found.HasField(name) else of(getattr(found, name))
                for name, of, is_optional in parts
            }

        return read

    def field_reader(self, field: Any) -> Read:
        if is_map(field):
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            return partial(self.pairs, self.one_reader(key), self.one_reader(value))
        _, is_many = kind_of(field)
        one = self.one_reader(field)
        return partial(self.items, one) if is_many else one

    def one_reader(self, field: Any) -> Read:
        kind, _ = kind_of(field)
        if kind in (MESSAGE, GROUP):
            return self.reader(field.message_type)
        if kind == ENUM:
            return partial(name_of, dict(field.enum_type.values_by_number))
        return text_of if kind == STRING else same

    def count(self, values: int) -> None:
        """Count values of the record. Raises ValueError above VALUES_MAX."""
        self.values += values
        if self.values > VALUES_MAX:
            raise ValueError(f"more than {VALUES_MAX} values")

    def items(self, one: Read, found: Any) -> list[Any]:
        self.count(len(found))
        return [one(each) for each in found]

    def pairs(self, key: Read, value: Read, found: Any) -> list[tuple[Any, Any]]:
        self.count(len(found))
        return [(key(each), value(found[each])) for each in sorted(found)]


def same(found: Any) -> Any:
    return found


def text_of(found: str | bytes) -> str:
    """Return the text of a proto2 string. The library returns bytes if it is not UTF-8. Raises ValueError then."""
    return found if isinstance(found, str) else found.decode()


def has_presence(field: Any) -> bool:
    """Whether a message distinguishes an unset field from its default value."""
    return bool(field.has_presence)


def name_of(values: dict[int, Any], number: int) -> str:
    """Return the name of an enum value, or its number if the schema does not have it."""
    return str(values[number].name) if number in values else str(number)


def micros_of(found: Any) -> int:
    """Convert a Timestamp to microseconds since 1970. Raises ValueError outside the years 1 to 9999."""
    if not FIRST_SECOND <= found.seconds <= LAST_SECOND or not 0 <= found.nanos < 1_000_000_000:
        raise ValueError(f"a Timestamp of {found.seconds} s and {found.nanos} ns is outside of the years 1 to 9999")
    return int(found.seconds) * MICROS + int(found.nanos) // 1000
