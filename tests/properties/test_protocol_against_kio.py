"""kio, an independent implementation, writes the same bytes for the same values and reads ours as the same values:
every message and version that both know.

kio has one class per version, with richer types (timedelta, datetime, UUID, ErrorCode). Fields are matched by name,
so confusing two of one type would show.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import os
import pkgutil
import re
import uuid
from collections.abc import Iterator
from functools import cache
from typing import Any

import kio.schema
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from kraft.protocol.schema import Message, Struct
from tests.properties.protocol_strategies import SOAK, Special, examples, message_classes, messages, shares, versions

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
KINDS = ("request", "response", "header", "data")
SPECIAL_VALUES = {
    "error_code": st.sampled_from([int(code) for code in ErrorCode]),
    "timedelta_i64": st.integers(0, 1 << 40),
    "datetime_i64": st.integers(0, 4102444800000),
}


NEWER_THAN_KIO = {
    "ApiVersionsRequest": 5,
    "ApiVersionsResponse": 5,
    "DeleteGroupsRequest": 3,
    "DeleteGroupsResponse": 3,
    "StreamsGroupDescribeRequest": 1,
    "StreamsGroupDescribeResponse": 1,
    "StreamsGroupHeartbeatRequest": 1,
    "StreamsGroupHeartbeatResponse": 1,
    "TxnOffsetCommitRequest": 6,
    "TxnOffsetCommitResponse": 6,
}
"""The versions of Apache Kafka 4.4 that kio does not know: from each of these on."""


def shared_versions(cls: type[Message]) -> list[int]:
    """The versions that kio should know."""
    return [version for version in versions(cls) if version < NEWER_THAN_KIO.get(cls.__name__, version + 1)]


@cache
def kio_class(cls: type[Message], version: int) -> Any:
    """kio's class for this version, or None. One module per version: `kio.schema.index` would import them all."""
    module = cls.__module__.rsplit(".", 1)[1].replace("kraft_", "k_raft_")
    folder, kind = next(
        ((module.removesuffix(f"_{kind}"), kind) for kind in KINDS[:2] if module.endswith(f"_{kind}")), (module, "data")
    )
    if module in ("request_header", "response_header"):
        kind = "header"
    if importlib.util.find_spec(f"kio.schema.{folder}") is None:
        return None
    package = importlib.import_module(f"kio.schema.{folder}")
    if f"v{version}" not in {info.name for info in pkgutil.iter_modules(package.__path__)}:
        return None
    return getattr(importlib.import_module(f"kio.schema.{folder}.v{version}.{kind}"), cls.__name__, None)


def our_name(name: str, fields: tuple[str, ...]) -> str:
    """kio leaves out units, as its types carry them. Apache Kafka 4.4 gave two fields longer names."""
    candidates = (
        f"{name}_legacy",
        name,
        f"{name}_ms",
        name.rstrip("_"),
        name.replace("k_raft", "kraft"),
        f"{name}_or_member_epoch",
    )
    return next(candidate for candidate in candidates if candidate in fields)


def element_class(field: dataclasses.Field[Any]) -> Any:
    """The nested entity of a field, or None."""
    for found in _types_in(field.type):
        if dataclasses.is_dataclass(found):
            return found
    return None


def _types_in(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _types_in(inner)


def special_strategies(cls: type[Struct], kio_cls: Any) -> dict[tuple[str, str], st.SearchStrategy[Any]]:
    """Where kio's types hold fewer values than the wire does."""
    found: dict[tuple[str, str], st.SearchStrategy[Any]] = {}
    for field in dataclasses.fields(kio_cls):
        name = our_name(field.name, cls.__slots__)
        kind = field.metadata.get("kafka_type")
        nested = element_class(field)
        if nested is not None:
            found |= special_strategies(_our_struct(cls, nested.__name__), nested)
        elif kind in SPECIAL_VALUES:
            found[cls.__name__, name] = SPECIAL_VALUES[kind]
    return found


def _our_struct(cls: type[Struct], name: str) -> type[Struct]:
    found: type[Struct] = getattr(importlib.import_module(cls.__module__), name)
    return found


def to_kio(value: Any, kio_cls: Any) -> Any:
    """Our message as kio's."""
    converted = {}
    for field in dataclasses.fields(kio_cls):
        ours = getattr(value, our_name(field.name, value.__slots__))
        nested = element_class(field)
        if ours is None and field.type is nested:
            # An absent tagged struct: None with us, a default one with kio.
            ours = _our_struct(type(value), nested.__name__)()
        converted[field.name] = convert(ours, field)
    return kio_cls(**converted)


def convert(value: Any, field: dataclasses.Field[Any]) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(convert(element, field) for element in value)
    if isinstance(value, Struct):
        return to_kio(value, element_class(field))
    match field.metadata["kafka_type"]:
        case "uuid":
            return None if value == bytes(16) else uuid.UUID(bytes=bytes(value))
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            return EPOCH + datetime.timedelta(milliseconds=value)
        case "bytes" | "records":
            return bytes(value)
    return value


def kio_bytes(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def known_to_kio(cls: type[Message]) -> bool:
    module = cls.__module__.rsplit(".", 1)[1]
    return any(
        os.path.isdir(f"{path}/{re.sub('_(request|response)$', '', module).replace('kraft_', 'k_raft_')}")
        for path in kio.schema.__path__
    )


@shares([cls for cls in message_classes() if known_to_kio(cls)])
@given(data=st.data())
@examples(200)
def test_kio_reads_and_writes_the_same_messages(classes: list[type[Message]], data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(classes))
    known = shared_versions(cls)
    for version in known if SOAK else [data.draw(st.sampled_from(known))]:
        compare(cls, version, data)


def compare(cls: type[Message], version: int, data: st.DataObject) -> None:
    kio_cls = kio_class(cls, version)
    assert kio_cls is not None, f"kio has no {cls.__name__} v{version}"
    special: Special = special_strategies(cls, kio_cls)
    message = data.draw(messages(cls, version, tags=False, special=special))
    encoded = message.encode(version)
    expected = to_kio(message, kio_cls)
    assert kio_bytes(expected) == encoded
    assert cls.decode(kio_bytes(expected), version) == message
    read, size = entity_reader(kio_cls)(encoded, 0)
    assert size == len(encoded)
    assert read == expected
