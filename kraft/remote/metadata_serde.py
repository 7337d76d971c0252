"""The value of a record in `__remote_log_metadata`, as written by Kafka's RemoteLogMetadataSerde: frame version 1, the
record type's number and version as unsigned varints, then the message. Records have no key."""

from __future__ import annotations

from typing import Final, TypeAlias

from kraft.common.errors import ProtocolError
from kraft.protocol.messages.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from kraft.protocol.messages.remote_log_segment_metadata_snapshot_record import RemoteLogSegmentMetadataSnapshotRecord
from kraft.protocol.messages.remote_log_segment_metadata_update_record import RemoteLogSegmentMetadataUpdateRecord
from kraft.protocol.messages.remote_partition_delete_metadata_record import RemotePartitionDeleteMetadataRecord
from kraft.protocol.primitives import read_uvarint, write_uvarint
from kraft.protocol.schema import Bytes

RemoteLogMetadataRecord: TypeAlias = (
    RemoteLogSegmentMetadataRecord
    | RemoteLogSegmentMetadataUpdateRecord
    | RemotePartitionDeleteMetadataRecord
    | RemoteLogSegmentMetadataSnapshotRecord
)

FRAME_VERSION: Final = 1

_CLASSES: Final[tuple[type[RemoteLogMetadataRecord], ...]] = (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
)
"""The record classes by number."""


def encode_metadata(message: RemoteLogMetadataRecord) -> bytes:
    """Encode the message in its highest version."""
    version = type(message).VALID_VERSIONS[1]
    out = bytearray((FRAME_VERSION,))
    write_uvarint(out, message.API_KEY)
    write_uvarint(out, version)
    message.encode_into(out, version)
    return bytes(out)


def decode_metadata(value: Bytes) -> RemoteLogMetadataRecord:
    """Decode a value. Raises ProtocolError for an unknown frame, message or version, and for malformed or surplus
    bytes."""
    frame_version, position = read_uvarint(value, 0)
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"remote log metadata of frame version {frame_version} is not known, only {FRAME_VERSION}")
    number, position = read_uvarint(value, position)
    version, position = read_uvarint(value, position)
    if number >= len(_CLASSES):
        raise ProtocolError(f"remote log metadata has no record {number}")
    message, end = _CLASSES[number].decode_from(value, position, version)
    if end != len(value):
        raise ProtocolError(f"{type(message).__name__} v{version}: {len(value) - end} bytes left over after the record")
    return message
