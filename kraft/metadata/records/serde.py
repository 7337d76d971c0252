"""The value of a record in the metadata log: frame version 1, record id and record version as unsigned varints, then the record's own bytes (KIP-631)."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from kraft.common.errors import ProtocolError
from kraft.metadata.records.table import RECORDS
from kraft.protocol.primitives import read_uvarint, write_uvarint
from kraft.protocol.schema import Bytes, Message

FRAME_VERSION = 1


@cache
def record_class(record_id: int) -> type[Message]:
    """The class of records with this id; its module is imported on first use. Raises ProtocolError for an unknown id."""
    if record_id not in RECORDS:
        raise ProtocolError(f"metadata record id {record_id} is not known")
    module, name = RECORDS[record_id]
    found: type[Message] = getattr(import_module(f"kraft.metadata.records.{module}"), name)
    return found


def encode_record(message: Message, version: int) -> bytes:
    """The framed value. Raises ProtocolError when `version` cannot carry the record."""
    out = bytearray((FRAME_VERSION, message.API_KEY))
    write_uvarint(out, version)
    message.encode_into(out, version)
    return bytes(out)


def decode_record(value: Bytes) -> tuple[Message, int]:
    """The record and its version. Raises ProtocolError for another frame version, an unknown id or version, malformed bytes and bytes left over."""
    frame_version, position = read_uvarint(value, 0)
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"metadata frame version {frame_version} is not known, only {FRAME_VERSION}")
    record_id, position = read_uvarint(value, position)
    version, position = read_uvarint(value, position)
    message, end = record_class(record_id).decode_from(value, position, version)
    if end != len(value):
        raise ProtocolError(f"{type(message).__name__} v{version}: {len(value) - end} bytes left over after the record")
    return message, version
