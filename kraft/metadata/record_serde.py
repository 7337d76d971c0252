"""Encodes metadata records for the Raft layer, which treats them as opaque bytes."""

from __future__ import annotations

from kraft.metadata.records.serde import decode_record, encode_record
from kraft.protocol.schema import Message


class MetadataRecordSerde:
    """Writes every record at its newest version, that of each supported metadata.version (30 to 33). Reads all
    versions."""

    __slots__ = ()

    def encode(self, record: Message) -> bytes:
        """Encode a record. Raises ProtocolError."""
        return encode_record(record, record.VALID_VERSIONS[1])

    def decode(self, value: bytes) -> Message:
        """Decode a record. Raises ProtocolError."""
        return decode_record(value)[0]
