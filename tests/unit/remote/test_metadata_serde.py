"""Records of remote log metadata have Kafka's bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraft.common.errors import ProtocolError
from kraft.protocol.messages.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from kraft.protocol.messages.remote_partition_delete_metadata_record import (
    RemotePartitionDeleteMetadataRecord,
    TopicIdPartitionEntry,
)
from kraft.remote.metadata_serde import RemoteLogMetadataRecord, decode_metadata, encode_metadata
from kraft.remote.segment_metadata import RemotePartitionDeleteState, segment_of
from tests.unit.remote.remote_metadata import SEGMENT, SNAPSHOT
from tests.unit.remote.support import DELETING, FINISHED, PARTITION

PARTITION_DELETE = RemotePartitionDeleteMetadataRecord(
    topic_id_partition=TopicIdPartitionEntry(name="orders", id=PARTITION.topic_id, partition=3),
    broker_id=4,
    event_timestamp_ms=1_700_000_000_789,
    remote_partition_delete_state=RemotePartitionDeleteState.DELETE_PARTITION_STARTED,
)

KAFKA = {
    "segment": (
        "010000076f726465727300112233445566778899aabbccddeeff0000000300f0e1d2c3b4a5968778695a4b3c2d1e0f00"
        "000000000000006400000000000000c7000000070000018bcfe568000000018bcfe5687b030000000200000000000000"
        "64000000000500000000000000960000100000000000"
    ),
    "segment_txn_empty": (
        "010000076f726465727300112233445566778899aabbccddeeff0000000300f0e1d2c3b4a5968778695a4b3c2d1e0f00"
        "000000000000006400000000000000c7000000070000018bcfe568000000018bcfe5687b030000000200000000000000"
        "64000000000500000000000000960000100000000001000101"
    ),
    "finished": (
        "010100076f726465727300112233445566778899aabbccddeeff0000000300f0e1d2c3b4a5968778695a4b3c2d1e0f00"
        "000000070000018bcfe569c8000100"
    ),
    "custom": (
        "010100076f726465727300112233445566778899aabbccddeeff0000000300f0e1d2c3b4a5968778695a4b3c2d1e0f00"
        "ffffffff0000018bcfe569c8040102030200"
    ),
    "partition": ("010200076f726465727300112233445566778899aabbccddeeff0000000300000000040000018bcfe56b150100"),
    "snapshot": (
        "010300f0e1d2c3b4a5968778695a4b3c2d1e0f000000000000006400000000000000c7000000070000018bcfe5680000"
        "00018bcfe5687b03000000020000000000000064000000000500000000000000960000100000000100"
    ),
}
"""As RemoteLogMetadataSerde of Apache Kafka 4.3.1 writes them."""


def records() -> dict[str, RemoteLogMetadataRecord]:
    update = SEGMENT.state_update
    return {
        "segment": SEGMENT.to_record(),
        "segment_txn_empty": replace(SEGMENT, txn_index_is_empty=True).to_record(),
        "finished": update(FINISHED, broker_id=7, now_ms=1_700_000_000_456),
        "custom": update(DELETING, broker_id=-1, now_ms=1_700_000_000_456, custom_metadata=b"\1\2\3"),
        "partition": PARTITION_DELETE,
        "snapshot": SNAPSHOT,
    }


@pytest.mark.parametrize("name", sorted(KAFKA))
def test_a_metadata_record_has_kafkas_bytes(name: str) -> None:
    record = records()[name]
    assert encode_metadata(record).hex() == KAFKA[name]
    decoded = decode_metadata(bytes.fromhex(KAFKA[name]))
    assert type(decoded) is type(record)
    assert encode_metadata(decoded).hex() == KAFKA[name]


def test_a_segment_is_read_back_from_its_record() -> None:
    for each in (SEGMENT, replace(SEGMENT, custom_metadata=b"", state=FINISHED, txn_index_is_empty=True)):
        record = decode_metadata(encode_metadata(each.to_record()))
        assert isinstance(record, RemoteLogSegmentMetadataRecord)
        assert segment_of(record) == each


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"", "cut off"),
        (b"\x00\x00\x00", "frame version 0"),
        (b"\x01\x04\x00", "no record 4"),
        (b"\x01\x00\x01", "version"),
        (bytes(encode_metadata(PARTITION_DELETE)) + b"x", "1 bytes left over"),
        (bytes(encode_metadata(PARTITION_DELETE))[:-3], "RemotePartitionDeleteMetadataRecord"),
    ],
)
def test_bytes_that_are_no_metadata_record_are_rejected(value: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decode_metadata(value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"leader_epochs": ()}, "no leader epoch"),
        ({"start_offset": 200}, "200..199"),
        ({"start_offset": -1}, "-1..199"),
        ({"state": 9}, "no state 9"),
    ],
)
def test_a_contradictory_metadata_record_is_rejected(change: dict[str, object], problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        segment_of(replace(SEGMENT, **change).to_record())  # type: ignore[arg-type]
