"""Messages as plain values (dicts, lists, numbers, text), both ways, by their declarations."""

from __future__ import annotations

import functools
import importlib
import re
from typing import Any

from kraft.common.errors import ProtocolError
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.protocol.schema import Field, Message, Struct, fields_of, struct_class


def message_class(name: str) -> type[Message]:
    """`CreateTopicsRequest` by name."""
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    found: type[Message] = getattr(importlib.import_module(f"kraft.protocol.messages.{module}"), name)
    return found


_fields = functools.cache(fields_of)

UNREADABLE = "<unreadable>"
"""In place of the records of a batch that our decoder refuses."""
# Keys in fact, if not by declaration.
IDENTIFYING = frozenset({"partition_index", "partition", "index", "batch_index", "topic", "group_id", "broker_id"})


class Batch:
    """Records for a Produce: values (or whole (key, value, headers) triples) with fixed times; `tweak` damages or
    changes the bytes."""

    def __init__(self, *values: Any, timestamp: int = 1_700_000_000_000, tweak: Any = None, **options: Any) -> None:
        self.values = values
        self.timestamp = timestamp
        self.tweak = tweak
        self.options = options

    def build(self) -> bytes:
        triples = [value if isinstance(value, tuple) else (None, value, ()) for value in self.values]
        records = [Record(offset, self.timestamp + offset, *triple) for offset, triple in enumerate(triples)]
        data = build_batch(records, **self.options)
        return bytes(self.tweak(bytearray(data))) if self.tweak else data


def to_message(cls: type[Struct], values: dict[str, Any], version: int) -> Any:
    """A message from plain values. Fields that `version` lacks are left out, so that one body serves all versions; a
    name that no version has is an error."""
    fields = {field.name: field for field in _fields(cls)}
    for name in values:
        assert name in fields, f"{cls.__name__} has no field {name}, only {', '.join(fields)}"
    given = {
        name: to_field(cls, fields[name], value, version)
        for name, value in values.items()
        if fields[name].present(version)
    }
    return cls(**given)


def to_field(cls: type[Struct], field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_struct:
        inner = struct_class(cls, field.element_type)
        return (
            [to_message(inner, each, version) for each in value]
            if field.is_array
            else to_message(inner, value, version)
        )
    if field.type == "records":
        return b"".join(
            each.build() if isinstance(each, Batch) else each
            for each in (value if isinstance(value, list) else [value])
        )
    return value


def from_message(message: Struct, version: int) -> dict[str, Any]:
    """Plain values of the fields that `version` carries. Lists of structs are sorted by their key fields: Kafka's
    order there means nothing."""
    cls = type(message)
    return {
        field.name: from_field(cls, field, getattr(message, field.name), version)
        for field in _fields(cls)
        if field.present(version)
    }


def from_field(cls: type[Struct], field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_struct and not field.is_array:
        return from_message(value, version)
    if field.is_struct:
        inner = _fields(struct_class(cls, field.element_type))
        keys = [
            each.name
            for each in inner
            if each.key or each.name in IDENTIFYING or (field.name, each.name) == ("configs", "name")
        ]
        rows = [from_message(each, version) for each in value]
        return sorted(
            rows,
            key=lambda row: [
                repr(row.get(key)) if isinstance(row.get(key), bytes) else sort_key(row.get(key)) for key in keys
            ],
        )
    if field.type == "records":
        return [batch_values(each) for each in batches(bytes(value), partial_tail=True)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if field.type == "[]uuid":
        return [bytes(each) for each in value]
    return value


def sort_key(value: Any) -> str:
    return f"{value:020d}" if isinstance(value, int) else str(value)


def batch_values(batch: RecordBatch) -> dict[str, Any]:
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "leader_epoch": batch.partition_leader_epoch,
        "attributes": batch.attributes,
        "max_timestamp": batch.max_timestamp,
        "base_sequence": batch.base_sequence,
        "records": record_values(batch),
    }


def record_values(batch: RecordBatch) -> list[dict[str, Any]] | str:
    """The records, or that they cannot be read here."""
    try:
        records = batch.records()
    except ProtocolError:
        return UNREADABLE
    return [
        {
            "offset": each.offset,
            "timestamp": each.timestamp,
            "key": each.key,
            "value": each.value,
            "headers": [list(pair) for pair in each.headers],
        }
        for each in records
    ]
