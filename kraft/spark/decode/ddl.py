"""Parse Spark's DDL (`carrier STRING, delay DOUBLE`) to Arrow types, without a JVM. Type names are Spark SQL's."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

UTC_TIMESTAMP = pa.timestamp("us", tz="UTC")
PRIMITIVES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": UTC_TIMESTAMP,
    "timestamp_ltz": UTC_TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
}
DECIMALS = ("decimal", "dec", "numeric")
PRECISION_MAX = 38
DEPTH_MAX = 64
"""The nesting limit of types."""
TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|('(?:[^'\\]|\\.)*')|([<>(),:]))")


def parse_fields(text: str) -> pa.StructType:
    """Parse the columns of a DDL text. Raises ValueError that names what was expected, and where."""
    parser = DdlParser(text)
    fields = parser.fields(None, 0)
    return struct_of(fields)


def parse_type(text: str) -> pa.DataType:
    """Parse one type, such as `array<int>`. Raises ValueError."""
    parser = DdlParser(text)
    found = parser.type_of(0)
    parser.expect(None)
    return found


def struct_of(fields: Iterable[pa.Field]) -> pa.StructType:
    """Return the struct of the fields. Raises ValueError without fields, or for a duplicate name."""
    listed = list(fields)
    names = [field.name for field in listed]
    if not names:
        raise ValueError("a schema needs at least one field")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the field {name} appears twice")
    return pa.struct(listed)


def list_of(element: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("element", element))


def map_of(key: pa.DataType, value: pa.DataType) -> pa.MapType:
    return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))


class DdlParser:
    """Parses tokens from left to right. All fields are nullable, even with NOT NULL, as in from_json."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"the schema '{text}' cannot be read from '{text[position:].strip()[:20]}' on")
            self.tokens.append(match[0].strip())
            position = match.end()
        self.index = 0

    def peek(self) -> str | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def take(self) -> str:
        token = self.peek()
        if token is None:
            raise ValueError(f"the schema '{self.text}' ends too early")
        self.index += 1
        return token

    def expect(self, wanted: str | None) -> None:
        """Consume the next token, which must be `wanted`; None means the end of the text. Raises ValueError."""
        found = self.peek()
        if found != wanted:
            shown = "its end" if found is None else f"'{found}'"
            raise ValueError(f"the schema '{self.text}' has {shown} where {wanted or 'its end'} is expected")
        self.index += 1

    def accept(self, word: str) -> bool:
        found = (self.peek() or "").lower() == word
        self.index += found
        return found

    def fields(self, closing: str | None, depth: int) -> list[pa.Field]:
        """Parse `name[:] type [NOT NULL] [COMMENT '...'], ...` up to `closing`."""
        found = []
        while True:
            name = self.name()
            self.accept(":")
            found.append(pa.field(name, self.type_of(depth)))
            if self.accept("not") and not self.accept("null"):
                raise ValueError(f"the schema '{self.text}' has NOT without NULL")
            if self.accept("comment"):
                self.take()
            if not self.accept(","):
                self.expect(closing)
                return found

    def name(self) -> str:
        token = self.take()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            raise ValueError(f"the schema '{self.text}' has '{token}' where a field's name is expected")
        return token

    def type_of(self, depth: int) -> pa.DataType:
        if depth > DEPTH_MAX:
            raise ValueError(f"types may be nested at most {DEPTH_MAX} levels deep")
        word = self.take()
        kind = word.lower()
        if kind in PRIMITIVES:
            return PRIMITIVES[kind]
        if kind in DECIMALS:
            return self.decimal()
        if kind not in ("array", "map", "struct"):
            raise ValueError(
                f"'{word}' is not a supported type; supported are {', '.join(PRIMITIVES)}, decimal, array, map, struct"
            )
        self.expect("<")
        if kind == "struct":
            return struct_of(self.fields(">", depth + 1))
        first = self.type_of(depth + 1)
        if kind == "array":
            self.expect(">")
            return list_of(first)
        self.expect(",")
        second = self.type_of(depth + 1)
        self.expect(">")
        return map_of(first, second)

    def decimal(self) -> pa.Decimal128Type:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.integer()
            if self.accept(","):
                scale = self.integer()
            self.expect(")")
        if not 1 <= precision <= PRECISION_MAX or scale > precision:
            raise ValueError(
                f"decimal({precision},{scale}): the precision is at most {PRECISION_MAX}, and the scale at most "
                "the precision"
            )
        return pa.decimal128(precision, scale)

    def integer(self) -> int:
        token = self.take()
        if not re.fullmatch(r"[0-9]+", token):
            raise ValueError(f"the schema '{self.text}' has '{token}' where a number is expected")
        return int(token)
