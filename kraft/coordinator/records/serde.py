"""Records of the coordinators' topics.

A key is its record type as an int16, then its fields; a value is its version as an int16, then its fields; a record without a value deletes its key. The int16
before a key is the type of the record, not a version of the key: keys have version 0 only.
"""

from __future__ import annotations

import struct
from importlib import import_module
from typing import NamedTuple

from kraft.common.errors import ProtocolError
from kraft.coordinator.records import table
from kraft.protocol.schema import Bytes, Message

_INT16 = struct.Struct(">h")
_KEY_VERSION = 0


class CoordinatorRecords:
    """The record types of one coordinator."""

    def __init__(self, name: str, types: dict[int, tuple[str, str, str, str]]) -> None:
        self.name = name
        self._types = types
        self._classes: dict[int, tuple[type[Message], type[Message]]] = {}

    def classes_of(self, record_type: int) -> tuple[type[Message], type[Message]]:
        """The classes of key and value; their modules are imported on first use. Raises UnknownRecordType."""
        found = self._classes.get(record_type)
        if found is None:
            if record_type not in self._types:
                raise UnknownRecordType(f"record type {record_type} of the {self.name} coordinator is not known")
            key_module, key_name, value_module, value_name = self._types[record_type]
            package = "kraft.coordinator.records"
            found = getattr(import_module(f"{package}.{key_module}"), key_name), getattr(import_module(f"{package}.{value_module}"), value_name)
            self._classes[record_type] = found
        return found

    def decode(self, key: Bytes, value: Bytes | None) -> CoordinatorRecord:
        """A record as it lies in the log. Raises UnknownRecordType (which a loader may skip) and ProtocolError."""
        record_type = _leading_int16(key, "key")
        key_class, value_class = self.classes_of(record_type)
        key_message = _decode_all(key_class, key, _KEY_VERSION)
        if value is None:
            return CoordinatorRecord(key_message, None, -1)
        version = _leading_int16(value, "value")
        return CoordinatorRecord(key_message, _decode_all(value_class, value, version), version)


class UnknownRecordType(ProtocolError):
    """The record was written by a newer release."""


class CoordinatorRecord(NamedTuple):
    """A decoded record. Without a value it deletes `key`; `version` is then -1."""

    key: Message
    value: Message | None
    version: int


def encode_key(key: Message) -> bytes:
    """The bytes of a record's key."""
    out = bytearray(_INT16.pack(key.API_KEY))
    key.encode_into(out, _KEY_VERSION)
    return bytes(out)


def encode_value(value: Message, version: int) -> bytes:
    """The bytes of a record's value. Raises ProtocolError when `version` cannot carry it."""
    if not 0 <= version <= 0x7FFF:
        raise ProtocolError(f"{type(value).__name__} has no version {version}")
    out = bytearray(_INT16.pack(version))
    value.encode_into(out, version)
    return bytes(out)


GROUP_RECORDS = CoordinatorRecords("group", table.GROUP)
TRANSACTION_RECORDS = CoordinatorRecords("transaction", table.TRANSACTION)
SHARE_RECORDS = CoordinatorRecords("share", table.SHARE)


def _leading_int16(buffer: Bytes, part: str) -> int:
    if len(buffer) < 2:
        raise ProtocolError(f"the {part} of a coordinator record has {len(buffer)} bytes, too few for its type")
    return int(_INT16.unpack_from(buffer)[0])


def _decode_all(cls: type[Message], buffer: Bytes, version: int) -> Message:
    message, end = cls.decode_from(buffer, 2, version)
    if end != len(buffer):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(buffer) - end} bytes left over after the record")
    return message
