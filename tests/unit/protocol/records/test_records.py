"""Record batches: views, codecs, builders, control records."""

from __future__ import annotations

import gzip
import os
import zlib
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kraft.protocol.records.builder import (
    TURN_ENTRIES,
    build_batch,
    build_empty_batch,
    build_keyed_batch,
    with_max_timestamp,
)
from kraft.protocol.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    MEMBER_PIECE_BYTES,
    NONE,
    SNAPPY,
    ZSTD,
    CompressionError,
    DecompressedTooLarge,
    compress,
    decompress,
)
from kraft.protocol.records.control_record import (
    ControlRecordType,
    TransactionMarker,
    build_control_batch,
    build_marker_batch,
    control_type_of,
    marker_of,
)
from kraft.protocol.records.record import CorruptBatch, InvalidRecord, Record, RecordCountMismatch
from kraft.protocol.records.record_batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    SEQUENCE_MAX,
    RecordBatch,
    batches,
    increment_sequence,
    with_offset_and_epoch,
)
from kraft.protocol.records.varint import append_varint, read_varint

CODECS = range(5)
texts = st.text(max_size=8)
blobs = st.none() | st.binary(max_size=40)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 6))):
        headers = tuple(draw(st.lists(st.tuples(texts, blobs), max_size=3)))
        records.append(Record(offset, draw(st.integers(-1, 2**41)), draw(blobs), draw(blobs), headers))
        offset += draw(st.integers(1, 2**20))
    return records


@given(records=record_lists(), codec=st.sampled_from(CODECS))
def test_a_built_batch_is_read_back(records: list[Record], codec: int) -> None:
    data = build_batch(records, codec=codec, leader_epoch=7, producer_id=5, producer_epoch=2, base_sequence=9)
    batch = RecordBatch(memoryview(b"before" + data + b"after"), 6)
    batch.check_frame()
    batch.verify_crc()
    assert batch.records() == records
    assert (batch.size, batch.base_offset, batch.last_offset, batch.codec) == (
        len(data),
        records[0].offset,
        records[-1].offset,
        codec,
    )
    assert (batch.partition_leader_epoch, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 5, 2, 9)
    assert batch.max_timestamp == max(record.timestamp for record in records)


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(value: int) -> None:
    out = bytearray(b"x")
    append_varint(out, value)
    assert read_varint(bytes(out), 1) == (value, len(out))


def test_an_endless_varint_is_rejected() -> None:
    with pytest.raises(ValueError, match="more than ten"):
        read_varint(b"\xff" * 20, 0)


@given(payload=st.binary(max_size=200), count=st.integers(1, 5))
def test_garbage_records_raise_only_the_error_for_corrupt_batches(payload: bytes, count: int) -> None:
    data = bytearray(build_batch([Record(0, 0, None, None)]))[:HEADER_SIZE] + payload
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[57:61] = count.to_bytes(4, "big")
    try:
        assert len(RecordBatch(data).records()) == count
    except InvalidRecord:
        pass


def test_a_wrong_record_count_is_distinguished_from_garbage() -> None:
    for count in (1, 3):
        data = bytearray(build_batch([Record(0, 0, None, b"a"), Record(1, 0, None, b"b")]))
        data[57:61] = count.to_bytes(4, "big")
        with pytest.raises(RecordCountMismatch):
            RecordBatch(data).records()


@pytest.mark.parametrize("flipped", range(21, 80))
def test_any_changed_byte_changes_the_crc(flipped: int) -> None:
    data = bytearray(build_batch([Record(0, 0, b"key", b"value" * 5)]))
    data[flipped] ^= 1
    with pytest.raises(CorruptBatch):
        RecordBatch(data).verify_crc()


def test_offset_and_epoch_can_be_set_without_changing_the_crc() -> None:
    data = build_batch([Record(0, 0, b"key", b"value")])
    patched = RecordBatch(with_offset_and_epoch(data, 1 << 40, 12) + data[HEADER_SIZE:])
    patched.verify_crc()
    assert (patched.base_offset, patched.partition_leader_epoch, patched.records()[0].offset) == (1 << 40, 12, 1 << 40)


@pytest.mark.parametrize("size", [0, 11, 60])
def test_too_few_bytes_are_no_batch(size: int) -> None:
    with pytest.raises(CorruptBatch):
        RecordBatch(build_batch([Record(0, 0, None, b"v")])[:size])


def test_batches_are_iterated_and_a_truncated_tail_is_accepted_only_on_request() -> None:
    one, two = build_batch([Record(0, 0, None, b"a")]), build_batch([Record(1, 0, None, b"b")])
    assert [batch.base_offset for batch in batches(one + two)] == [0, 1]
    for cut in range(1, len(two)):
        assert [batch.base_offset for batch in batches((one + two)[:-cut], partial_tail=True)] == [0]
        with pytest.raises(CorruptBatch):
            list(batches((one + two)[:-cut]))


def test_old_formats_are_rejected() -> None:
    data = bytearray(build_batch([Record(0, 0, None, b"a")]))
    data[16] = 1
    with pytest.raises(CorruptBatch, match="magic 1"):
        list(batches(data))


def test_append_time_replaces_every_timestamp() -> None:
    batch = RecordBatch(build_batch([Record(0, 10, None, b"a"), Record(1, 11, None, b"b")]))
    stamped = RecordBatch(with_max_timestamp(batch, LOG_APPEND_TIME, 99))
    stamped.verify_crc()
    assert [record.timestamp for record in stamped.records()] == [99, 99]


def test_an_emptied_batch_keeps_offsets_and_sequence() -> None:
    records = [Record(4, 10, None, b"a"), Record(9, 11, None, b"b")]
    batch = RecordBatch(build_batch(records, producer_id=3, producer_epoch=1, base_sequence=7, is_transactional=True))
    empty = RecordBatch(build_empty_batch(batch))
    empty.verify_crc()
    assert (
        empty.base_offset,
        empty.last_offset,
        empty.count,
        empty.producer_id,
        empty.last_sequence,
        empty.is_transactional,
    ) == (4, 9, 0, 3, 12, True)
    assert empty.records() == []


def test_a_delete_horizon_replaces_the_base_timestamp() -> None:
    batch = RecordBatch(build_batch([Record(0, 1000, b"k", None)], delete_horizon_ms=50_000))
    assert (batch.delete_horizon_ms, batch.records()[0].timestamp) == (50_000, 1000)


def test_sequences_wrap_around() -> None:
    assert increment_sequence(SEQUENCE_MAX, 1) == 0
    assert increment_sequence(SEQUENCE_MAX - 1, 3) == 1


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=5000))
def test_codecs_round_trip(codec: int, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, memoryview(packed)) == data
    assert compress(codec, data) == packed


def test_many_gzip_members_are_not_copied_once_per_member(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0

    class Counted:
        def __init__(self, bits: int) -> None:
            self._member = make(bits)

        def decompress(self, data: bytes, bytes_max: int) -> bytes:
            nonlocal taken
            taken += len(data)
            return self._member.decompress(data, bytes_max)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._member, name)

    make = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Counted)
    members = 5_000
    data = gzip.compress(b"a") * members
    assert decompress(GZIP, data) == b"a" * members
    assert taken <= len(data) + members * MEMBER_PIECE_BYTES
    assert len(data) > 20 * MEMBER_PIECE_BYTES


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_decompression_is_bounded(codec: int) -> None:
    bomb = compress(codec, bytes(10_000_000))
    assert len(decompress(codec, bomb, 10_000_000)) == 10_000_000
    with pytest.raises(CompressionError, match="more than"):
        decompress(codec, bomb, 1_000_000)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@given(data=st.binary(max_size=100), cut=st.integers(1, 20))
def test_damaged_data_is_rejected(codec: int, data: bytes, cut: int) -> None:
    for damaged in (data, compress(codec, b"some text, some text")[:-cut]):
        try:
            decompress(codec, damaged, 1 << 20)
        except CompressionError:
            pass


def test_unknown_codecs_are_rejected() -> None:
    for action in (compress, decompress):
        with pytest.raises(CompressionError, match="unknown"):
            action(5, b"")
    assert CODEC_NAMES[ZSTD] == "zstd"
    assert decompress(NONE, b"as it is") == b"as it is"


def test_batches_of_other_writers_are_read() -> None:
    text = os.urandom(100) * 1000
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(text))) == text
    assert decompress(GZIP, gzip.compress(text[:50]) + gzip.compress(text[50:])) == text
    assert decompress(ZSTD, zstandard.ZstdCompressor().compress(text)) == text
    assert (
        decompress(
            ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(text[:9]) + zstandard.compress(text[9:])
        )
        == text
    )
    assert decompress(LZ4, lz4.frame.compress(text, content_checksum=True, block_linked=True)) == text
    assert compress(GZIP, b"x")[4:8] == bytes(4)
    assert zlib.decompress(compress(GZIP, text), 31) == text


def test_control_markers_round_trip() -> None:
    data = build_marker_batch(
        TransactionMarker(ControlRecordType.ABORT, 6),
        offset=3,
        timestamp_ms=9,
        leader_epoch=1,
        producer_id=4,
        producer_epoch=2,
    )
    batch = RecordBatch(data)
    marker = marker_of(batch)
    assert marker is not None
    assert (
        marker.control_type,
        marker.coordinator_epoch,
        batch.is_control,
        batch.is_transactional,
        batch.base_offset,
    ) == (0, 6, True, True, 3)


def test_control_batches_of_the_quorum_contain_their_messages() -> None:
    entries = [(ControlRecordType.KRAFT_VERSION, b"a"), (ControlRecordType.KRAFT_VOTERS, b"b")]
    batch = RecordBatch(build_control_batch(entries, base_offset=5, timestamp_ms=1, leader_epoch=2))
    assert [(control_type_of(record.key), record.value, record.offset) for record in batch.records()] == [
        (5, b"a", 5),
        (6, b"b", 6),
    ]
    assert marker_of(batch) is None
    with pytest.raises(InvalidRecord):
        control_type_of(b"x")


def test_a_header_name_that_is_not_utf_8_is_preserved() -> None:
    """Nothing in Kafka's format says that it must be; what is read is written again the same."""
    whole = build_batch([Record(0, 7, b"k", b"v", (("name", b"x"), ("ok", None)))])
    odd = bytes(whole).replace(b"name", b"n\xff\xc3e")
    records = RecordBatch(odd).records()
    assert [name.encode("utf-8", "surrogateescape") for name, _ in records[0].headers] == [b"n\xff\xc3e", b"ok"]
    assert bytes(build_batch(records))[HEADER_SIZE:] == odd[HEADER_SIZE:]


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=70) | st.sampled_from((b"k", b"l")), st.none() | st.binary(max_size=70) | st.just(b"v")
        ),
        min_size=1,
        max_size=80,
    ),
    st.sampled_from((1, 3 * TURN_ENTRIES)),
)
def test_a_keyed_batch_equals_the_batch_of_its_records(entries, repeated):
    entries = (entries * repeated)[: max(len(entries), repeated)]
    records = [Record(index, 1234, key, value, ()) for index, (key, value) in enumerate(entries)]
    building = build_keyed_batch(entries, 1234, producer_id=5, producer_epoch=1, is_transactional=True)
    turns = 0
    with pytest.raises(StopIteration) as end:
        while True:
            next(building)
            turns += 1
    assert end.value.value == build_batch(records, producer_id=5, producer_epoch=1, is_transactional=True)
    assert turns == -(-len(entries) // TURN_ENTRIES)


def test_a_zstandard_decompressor_works_after_damage_or_an_early_stop() -> None:
    whole = compress(ZSTD, b"0123456789" * 300_000)
    with pytest.raises(CompressionError):
        decompress(ZSTD, whole[:20] + b"?" * 20)
    with pytest.raises(DecompressedTooLarge):
        decompress(ZSTD, whole, 1_500_000)
    assert decompress(ZSTD, whole) == b"0123456789" * 300_000


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_truncated_zstandard_data_is_damaged(cut: int) -> None:
    frames = zstandard.ZstdCompressor(write_checksum=True).compress(b"abc") * 2
    assert decompress(ZSTD, frames) == b"abcabc"
    with pytest.raises(CompressionError):
        decompress(ZSTD, frames[:-cut])


def test_concatenated_snappy_streams_are_read() -> None:
    assert decompress(SNAPPY, compress(SNAPPY, b"abc") + compress(SNAPPY, b"def")) == b"abcdef"
    with pytest.raises(CompressionError, match="inside a header"):
        decompress(SNAPPY, compress(SNAPPY, b"abc") + b"\x82SNAPPY\x00\x00")


def test_empty_and_large_zstandard_data_have_whole_frames() -> None:
    for size in (0, 1, 300, 70_000, 1 << 20):
        plain = bytes(range(256)) * (size // 256) + bytes(size % 256)
        assert decompress(ZSTD, compress(ZSTD, plain)) == plain
