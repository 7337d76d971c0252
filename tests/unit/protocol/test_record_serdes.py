import struct

import pytest

from kraft.common.errors import ProtocolError
from kraft.coordinator.records import table as coordinator_table
from kraft.coordinator.records.offset_commit_key import OffsetCommitKey
from kraft.coordinator.records.offset_commit_value import OffsetCommitValue
from kraft.coordinator.records.serde import (
    GROUP_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecords,
    UnknownRecordType,
    encode_key,
    encode_value,
)
from kraft.coordinator.records.transaction_log_key import TransactionLogKey
from kraft.coordinator.records.transaction_log_value import TransactionLogValue
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.metadata.records.serde import decode_record, encode_record, record_class
from kraft.metadata.records.table import RECORDS
from kraft.metadata.records.topic_record import TopicRecord


def test_a_metadata_record_is_framed_by_version_id_and_record_version() -> None:
    record = TopicRecord(name="t", topic_id=b"i" * 16)
    encoded = encode_record(record, 0)
    assert encoded == b"\1\2\0" + b"\2t" + b"i" * 16 + b"\0"
    assert decode_record(encoded) == (record, 0)
    assert decode_record(memoryview(encoded)) == (record, 0)


@pytest.mark.parametrize("record_id", RECORDS)
def test_every_metadata_record_is_found_by_its_id(record_id: int) -> None:
    cls = record_class(record_id)
    assert record_id == cls.API_KEY
    for version in range(cls.VALID_VERSIONS[0], cls.VALID_VERSIONS[1] + 1):
        assert decode_record(encode_record(cls(), version)) == (cls(), version)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\1",
        b"\1\2",
        b"\0\2\0\2t" + bytes(17),
        b"\2\2\0\2t" + bytes(17),
        b"\1\6\0",
        b"\1\2\1\2t" + bytes(17),
        b"\1\2\0\2t" + bytes(18),
        b"\1\2\0\2t",
    ],
)
def test_a_malformed_metadata_record_is_rejected(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_record(value)


def test_a_metadata_record_is_not_written_in_a_version_that_does_not_exist() -> None:
    for version in (-1, 1):
        with pytest.raises(ProtocolError):
            encode_record(NoOpRecord(), version)


def test_a_coordinator_record_has_its_type_before_the_key_and_its_version_before_the_value() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=9, leader_epoch=2, metadata="m", commit_timestamp=5)
    assert encode_key(key) == struct.pack(">hh", 1, 1) + b"g" + b"\0\1t" + b"\0\0\0\3"
    assert encode_value(value, 3) == struct.pack(">hqi", 3, 9, 2) + b"\0\1m" + struct.pack(">q", 5)
    assert GROUP_RECORDS.decode(encode_key(key), encode_value(value, 3)) == (key, value, 3)
    assert GROUP_RECORDS.decode(encode_key(key), None) == (key, None, -1)


def test_a_transaction_record_keeps_its_tags() -> None:
    key = TransactionLogKey(transactional_id="tx")
    value = TransactionLogValue(
        producer_id=1, previous_producer_id=5, client_transaction_version=2, transaction_partitions=None
    )
    assert TRANSACTION_RECORDS.decode(encode_key(key), encode_value(value, 1)) == (key, value, 1)
    with pytest.raises(ProtocolError, match="previous_producer_id"):
        encode_value(value, 0)


@pytest.mark.parametrize(
    ("records", "types"),
    [
        (GROUP_RECORDS, coordinator_table.GROUP),
        (TRANSACTION_RECORDS, coordinator_table.TRANSACTION),
        (SHARE_RECORDS, coordinator_table.SHARE),
    ],
)
def test_every_coordinator_record_is_found_by_its_type(records: CoordinatorRecords, types: dict[int, object]) -> None:
    for record_type in types:
        key_class, value_class = records.classes_of(record_type)
        assert record_type == key_class.API_KEY == value_class.API_KEY
        for version in range(value_class.VALID_VERSIONS[0], value_class.VALID_VERSIONS[1] + 1):
            assert records.decode(encode_key(key_class()), encode_value(value_class(), version)) == (
                key_class(),
                value_class(),
                version,
            )


def test_an_unknown_record_type_is_distinguished_from_damage() -> None:
    with pytest.raises(UnknownRecordType):
        GROUP_RECORDS.decode(struct.pack(">h", 999), None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", None),
        (b"\0\1\0\1g\0\1t\0\0\0", None),
        (b"\0\1\0\1g\0\1t\0\0\0\3\0", None),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b""),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b"\0"),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b"\0\5" + bytes(30)),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b"\xff\xff" + bytes(30)),
    ],
)
def test_a_malformed_coordinator_record_is_rejected(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        GROUP_RECORDS.decode(key, value)


def test_an_invalid_value_version_is_rejected() -> None:
    for version in (-1, 5, 40000):
        with pytest.raises(ProtocolError):
            encode_value(OffsetCommitValue(), version)
