"""Encodes metadata records for the Raft layer, which treats them as opaque bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft.common.metadata_versions import METADATA_VERSION_MIN, METADATA_VERSIONS
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.register_broker_record import RegisterBrokerRecord
from kraft.metadata.records.serde import decode_record, encode_record
from kraft.protocol.schema import Message

VERSIONS: Final[Mapping[int | None, Mapping[int, int]]] = {
    level: {
        PartitionRecord.API_KEY: each.partition_record_version,
        PartitionChangeRecord.API_KEY: each.partition_record_version,
        RegisterBrokerRecord.API_KEY: each.register_broker_record_version,
    }
    for each in METADATA_VERSIONS
    for level in ((each.level, None) if each is METADATA_VERSION_MIN else (each.level,))
}
"""By level of metadata.version, and then by record id: the version in which a record is written, if the level decides
it. The level is None while none is finalized."""


class MetadataRecordSerde:
    """Writes each record in the version of a metadata.version. Reads all versions."""

    __slots__ = ()

    def encode(self, record: Message, level: int | None) -> bytes:
        """Encode a record for nodes at this level of metadata.version, None before one is finalized. Raises
        ProtocolError if the level does not know a field of the record.

        Records without an entry in `VERSIONS` are written at every level: the controls refuse those that a level does
        not know. A change of a broker is written in the lowest version that has its fields.
        """
        version = VERSIONS[level].get(record.API_KEY)
        if version is None:
            version = (
                _lowest_version(record)
                if isinstance(record, BrokerRegistrationChangeRecord)
                else record.VALID_VERSIONS[1]
            )
        return encode_record(record, version)

    def decode(self, value: bytes) -> Message:
        """Decode a record. Raises ProtocolError."""
        return decode_record(value)[0]


def _lowest_version(record: BrokerRegistrationChangeRecord) -> int:
    """The lowest version that has the fields of the change, as Kafka's controller writes it: 1 adds controlled
    shutdown, 2 log directories, 3 cordoned ones."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0
