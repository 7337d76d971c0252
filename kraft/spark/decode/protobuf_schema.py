"""Protocol Buffers messages: the Arrow type of a record, from the descriptors that `protoc` writes. Types are those of
Spark's from_protobuf. Unsigned numbers are the exception: their type is wide enough for all values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kraft.spark.decode.ddl import DEPTH_MAX, UTC_TIMESTAMP, list_of, map_of, struct_of

TIMESTAMP = "google.protobuf.Timestamp"
FIELDS_MAX = 10_000
"""The limit of fields in a message and its nested messages."""
WHOLE_SET = "write it with: protoc --include_imports --descriptor_set_out=FILE.desc ..."
DOUBLE, FLOAT, INT64, UINT64, INT32, FIXED64, FIXED32, BOOL, STRING, GROUP, MESSAGE, BYTES, UINT32, ENUM = range(1, 15)
SFIXED32, SFIXED64, SINT32, SINT64 = range(15, 19)
REPEATED = 3
"""Constants of descriptor.proto."""
SCALARS = {
    DOUBLE: pa.float64(),
    FLOAT: pa.float32(),
    BOOL: pa.bool_(),
    STRING: pa.string(),
    BYTES: pa.binary(),
    ENUM: pa.string(),
    **dict.fromkeys((INT32, SINT32, SFIXED32), pa.int32()),
    **dict.fromkeys((INT64, SINT64, SFIXED64, UINT32, FIXED32), pa.int64()),
    **dict.fromkeys((UINT64, FIXED64), pa.decimal128(20, 0)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufSchema:
    """A message name and the FileDescriptorSet that defines it. Pickled to the workers."""

    message: str
    descriptors: bytes


def read_descriptors(text: str) -> ProtobufSchema:
    """Read the schema that `FILE.desc#package.Message` names. Raises ValueError."""
    path, mark, message = text.strip().rpartition("#")
    if not mark or not path.endswith((".desc", ".pb", ".binpb")):
        raise ValueError(
            "a Protobuf schema is given as the path of a descriptor file and a message name: flights.desc#shop.Flight "
            f"({WHOLE_SET})"
        )
    try:
        return ProtobufSchema(message=message.strip(), descriptors=Path(path).read_bytes())
    except OSError as problem:
        raise ValueError(f"the schema's file cannot be read: {problem}") from None


def message_of(schema: ProtobufSchema) -> Any:
    """Return the message's class. Raises ValueError."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
    except ImportError:
        raise ValueError("reading Protobuf needs its library: pip install 'kraft-node[protobuf]'") from None
    found, pool = descriptor_pb2.FileDescriptorSet(), descriptor_pool.DescriptorPool()
    try:
        found.ParseFromString(schema.descriptors)
    except message.DecodeError as problem:
        raise ValueError(f"this is not a descriptor file: {problem}; {WHOLE_SET}") from None
    try:
        for file in found.file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(schema.message))
    except TypeError as problem:
        raise ValueError(f"the descriptor file is incomplete: {problem}; {WHOLE_SET}") from None
    except KeyError:
        names = ", ".join(
            f"{file.package}.{each.name}".lstrip(".") for file in found.file for each in file.message_type
        )
        raise ValueError(f"the descriptor file has no message {schema.message}; it has {names or 'none'}") from None


def arrow_type(message: Any) -> pa.StructType:
    """Return the Arrow type of a message descriptor. Raises ValueError for a type that Spark does not have."""
    return TypeWalk().struct(message, ())


def kind_of(field: Any) -> tuple[int, bool]:
    """Return the number of the field's type, and whether it is repeated. The API for this differs between library
    versions."""
    is_many = field.is_repeated if hasattr(field, "is_repeated") else field.label == REPEATED
    return field.type, bool(is_many)


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


class TypeWalk:
    def __init__(self) -> None:
        self.fields = 0

    def struct(self, message: Any, within: tuple[str, ...]) -> pa.StructType:
        if message.full_name in within:
            raise ValueError(f"the message {message.full_name} contains itself, and Spark has no recursive types")
        if len(within) > DEPTH_MAX:
            raise ValueError(f"types may be nested at most {DEPTH_MAX} levels deep")
        return struct_of(self.members(message, (*within, message.full_name)))

    def members(self, message: Any, within: tuple[str, ...]) -> Iterator[pa.Field]:
        for field in message.fields:
            self.fields += 1
            if self.fields > FIELDS_MAX:
                raise ValueError(f"a schema may have {FIELDS_MAX} fields in total")
            yield pa.field(field.name, self.of_field(field, within))

    def of_field(self, field: Any, within: tuple[str, ...]) -> pa.DataType:
        if is_map(field):
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            return map_of(self.of_one(key, within), self.of_one(value, within))
        _, is_many = kind_of(field)
        one = self.of_one(field, within)
        return list_of(one) if is_many else one

    def of_one(self, field: Any, within: tuple[str, ...]) -> pa.DataType:
        kind, _ = kind_of(field)
        if kind in (MESSAGE, GROUP):
            if field.message_type.full_name == TIMESTAMP:
                return UTC_TIMESTAMP
            return self.struct(field.message_type, within)
        return SCALARS[kind]
