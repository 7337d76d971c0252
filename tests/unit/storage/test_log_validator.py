"""What a Produce may append, and the code that Kafka 4.3 gives for what it may not."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import build_batch, with_max_timestamp
from kraft.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import CRC_START, HEADER_SIZE, LOG_APPEND_TIME, LOG_OVERHEAD, RecordBatch
from kraft.storage.log_config import LogConfig
from kraft.storage.log_validator import (
    CHECKED_WHOLLY_RECORD_BYTES,
    AppendOrigin,
    batch_for_leader,
)
from kraft.storage.record_validator import DECODED_BYTES_MAX, DECODED_RECORDS_MAX, RecordsRejected
from tests.unit.storage.support import NOW_MS, batch_of
from tests.vectors.frames import framed, lz4_frame, lz4_legacy, zstd_frame

FULL = LogConfig()
BY_HEADER = LogConfig(validate_records=False)


def code_of(data: bytes | bytearray | None, config: LogConfig = FULL, origin: int = AppendOrigin.CLIENT) -> int:
    try:
        batch_for_leader(data, config, origin, NOW_MS)
    except ApiError as problem:
        return problem.code
    return ErrorCode.NONE


def patched(position: int, content: bytes, data: bytes | None = None) -> bytearray:
    """A batch with some bytes changed and a CRC that agrees."""
    from crc32c import crc32c

    changed = bytearray(batch_of(b"a", b"b") if data is None else data)
    changed[position : position + len(content)] = content
    changed[17:21] = crc32c(bytes(changed[CRC_START:])).to_bytes(4, "big")
    return changed


@pytest.mark.parametrize("config", [BY_HEADER, FULL])
def test_an_ordinary_batch_passes_unchanged(config: LogConfig) -> None:
    data = batch_of(b"a", b"b")
    assert batch_for_leader(data, config, AppendOrigin.CLIENT, NOW_MS).buffer is data


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch_of(b"a")[:40], ErrorCode.CORRUPT_MESSAGE),
        (batch_of(b"a")[:-1], ErrorCode.INVALID_RECORD),
        (batch_of(b"a") * 2, ErrorCode.INVALID_RECORD),
        (patched(16, b"\x01"), ErrorCode.INVALID_RECORD),
        (batch_of(b"a")[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (patched(0, (5).to_bytes(8, "big")), ErrorCode.INVALID_RECORD),
        (patched(57, (3).to_bytes(4, "big")), ErrorCode.INVALID_RECORD),
        (patched(57, (0).to_bytes(4, "big")), ErrorCode.INVALID_RECORD),
        (patched(23, (-1).to_bytes(4, "big", signed=True)), ErrorCode.INVALID_RECORD),
        (patched(22, b"\x07"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (batch_of(b"a", is_control=True), ErrorCode.INVALID_RECORD),
        (batch_of(b"a", producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (batch_of(b"a" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
        (batch_of(b"a", timestamp=NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
        (patched(61, b"\xff" * 5), ErrorCode.INVALID_RECORD),
        (patched(22, bytes([GZIP])), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_invalid_batches_get_the_error_codes_of_kafka(data: bytes | None, code: int) -> None:
    assert code_of(data) == code


def counted(count: int, data: bytes) -> bytearray:
    """`data` with a header that says `count` records."""
    return patched(57, count.to_bytes(4, "big"), bytes(patched(23, (count - 1).to_bytes(4, "big"), data)))


def with_payload(payload: bytes, count: int) -> bytearray:
    """A batch whose records are `payload`."""
    data = bytearray(batch_of(b"")[:HEADER_SIZE]) + payload
    data[8:12] = (len(data) - LOG_OVERHEAD).to_bytes(4, "big")
    return counted(count, bytes(data))


def forty(value: bytes = b"v") -> bytes:
    return batch_of(*[value] * 40)


@pytest.mark.parametrize("config", [BY_HEADER, FULL])
@pytest.mark.parametrize(
    "poison",
    [
        with_payload(b"\xee" * 50, 5),
        with_payload(b"\x00" * 50, 5),
        with_payload(b"", 1),
        counted(2**31 - 1, batch_of(b"a")),
        counted(2, batch_of(*[b"a"] * 5)),
        counted(3, batch_of(b"a", b"b")),
        counted(16, forty()),
        patched(61, b"\x7f", batch_of(b"a")),
        patched(61, b"\x01", batch_of(b"a")),
        patched(61 + 15 * 8, b"\x7f", forty()),
        counted(3_000_000, forty(b"v" * 1000)),
    ],
    ids=range(11),
)
def test_a_batch_whose_records_do_not_fill_it_is_refused(poison: bytearray, config: LogConfig) -> None:
    """A reader would hang at such a batch, or find offsets that repeat."""
    assert code_of(poison, config) == ErrorCode.INVALID_RECORD


def test_a_wrong_record_count_that_a_header_check_misses_is_found_by_full_validation() -> None:
    assert code_of(counted(41, forty()), BY_HEADER) == ErrorCode.NONE
    assert code_of(counted(41, forty())) == ErrorCode.INVALID_RECORD


def test_bytes_behind_the_first_records_are_checked_when_records_are_large() -> None:
    """Checking every length costs little when there are few of them."""
    small, large = forty(b"v"), forty(b"v" * CHECKED_WHOLLY_RECORD_BYTES)
    record = (len(large) - HEADER_SIZE) // 40
    assert code_of(patched(61 + 30 * 8, b"\x7f", small), BY_HEADER) == ErrorCode.NONE
    assert code_of(patched(61 + 30 * 8, b"\x7f", small), FULL) == ErrorCode.INVALID_RECORD
    assert code_of(patched(61 + 30 * record, b"\x7f", large), BY_HEADER) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [GZIP, LZ4, SNAPPY, ZSTD])
def test_a_compressed_batch_may_not_claim_more_records_than_its_bytes_can_hold(codec: int) -> None:
    full = batch_of(*[b""] * 10_000, codec=codec)
    assert code_of(full, LogConfig()) == ErrorCode.NONE
    assert code_of(counted(2**31 - 1, full), LogConfig()) == ErrorCode.INVALID_RECORD
    assert code_of(counted(2**31 - 1, batch_of(b"a", codec=codec)), LogConfig()) == ErrorCode.INVALID_RECORD


def test_timestamps_older_than_the_configured_bound_are_refused() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    assert code_of(batch_of(b"a", timestamp=NOW_MS - 1000), config) == ErrorCode.NONE
    assert code_of(batch_of(b"a", timestamp=NOW_MS - 1001), config) == ErrorCode.INVALID_TIMESTAMP
    assert code_of(batch_of(b"a", timestamp=-1), config) == ErrorCode.NONE


def test_compacted_topics_need_keys_and_the_error_names_the_record_without_one() -> None:
    config = LogConfig(cleanup_policy=("compact",))
    assert code_of(batch_of(b"a", keys=(b"k",)), config) == ErrorCode.NONE
    with pytest.raises(RecordsRejected) as caught:
        batch_for_leader(batch_of(b"a", b"b", keys=(b"k",)), config, AppendOrigin.CLIENT, NOW_MS)
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [1]


@pytest.mark.parametrize(
    ("name", "codec"), [("uncompressed", 0), ("gzip", GZIP), ("lz4", LZ4), ("zstd", ZSTD), ("producer", GZIP)]
)
def test_compression_type_determines_the_codec(name: str, codec: int) -> None:
    source = batch_of(b"a" * 50, b"b", codec=GZIP, producer_id=4, producer_epoch=1, base_sequence=2)
    batch = batch_for_leader(source, LogConfig(compression_type=name), AppendOrigin.CLIENT, NOW_MS)
    batch.verify_crc()
    assert (batch.codec, batch.producer_id, batch.base_sequence) == (codec, 4, 2)
    assert batch.records() == RecordBatch(source).records()


def crowded(count: int, codec: int = ZSTD) -> bytearray:
    """A batch of one real record whose header says `count`."""
    counted = patched(57, count.to_bytes(4, "big"), batch_of(bytes(range(100)), codec=codec))
    return patched(23, (count - 1).to_bytes(4, "big"), bytes(counted))


COMPACTED = LogConfig(cleanup_policy=("compact",))


def test_a_record_count_over_the_limit_is_rejected_only_if_decoding_is_needed() -> None:
    assert code_of(crowded(DECODED_RECORDS_MAX), COMPACTED) == ErrorCode.INVALID_RECORD
    assert code_of(crowded(DECODED_RECORDS_MAX + 1), COMPACTED) == ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(crowded(DECODED_RECORDS_MAX + 1), FULL) == ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(crowded(DECODED_RECORDS_MAX + 1), BY_HEADER) == ErrorCode.NONE
    # As many as could come uncompressed, which their bytes bound.
    assert (
        code_of(crowded(DECODED_RECORDS_MAX + 1), LogConfig(cleanup_policy=("compact",), max_message_bytes=1 << 24))
        == ErrorCode.INVALID_RECORD
    )
    assert code_of(crowded(DECODED_RECORDS_MAX + 1, NONE), COMPACTED) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [GZIP, LZ4, SNAPPY, ZSTD])
def test_a_decompressed_size_over_the_limit_is_rejected_only_if_decoding_is_needed(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraft.storage.record_validator.DECODED_BYTES_MAX", 2 << 20)
    fits, bomb = (batch_of(b"a" * size, keys=(b"k",), codec=codec) for size in ((2 << 20) - 100, (2 << 20) + 1))
    assert len(bomb) < 1 << 20 < DECODED_BYTES_MAX
    assert code_of(fits, COMPACTED) == ErrorCode.NONE
    assert code_of(bomb, COMPACTED) == ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(bomb, FULL) == ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(bomb, BY_HEADER) == ErrorCode.NONE
    assert code_of(bomb, LogConfig(cleanup_policy=("compact",), max_message_bytes=3 << 20)) == ErrorCode.NONE


def test_a_producers_batch_with_log_append_time_is_refused() -> None:
    claimed = bytes(with_max_timestamp(RecordBatch(batch_of(b"a")), LOG_APPEND_TIME, NOW_MS))
    assert code_of(claimed, LogConfig(message_timestamp_type="LogAppendTime")) == ErrorCode.INVALID_TIMESTAMP
    cleared = batch_for_leader(claimed, LogConfig(), AppendOrigin.CLIENT, NOW_MS)
    cleared.verify_crc()
    assert cleared.timestamp_type == 0


def test_an_implausible_batch_header_is_repaired_from_its_records() -> None:
    lying = patched(35, (5).to_bytes(8, "big"))
    batch = batch_for_leader(lying, BY_HEADER, AppendOrigin.CLIENT, NOW_MS)
    batch.verify_crc()
    assert batch.max_timestamp == NOW_MS + 1


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("said", [NOW_MS, NOW_MS + 500, NOW_MS - 10**9, -1, 2**63 - 1])
def test_the_max_timestamp_of_a_batch_is_recomputed_from_its_records(said: int, codec: int) -> None:
    """Batches of KafkaJS whose messages have times only in part say the largest of those given."""
    lying = patched(35, said.to_bytes(8, "big", signed=True), batch_of(b"a", b"b", b"c", codec=codec))
    batch = batch_for_leader(lying, LogConfig(), AppendOrigin.CLIENT, NOW_MS)
    batch.verify_crc()
    assert (batch.max_timestamp, batch.codec) == (NOW_MS + 2, codec)
    assert [record.timestamp for record in batch.records()] == [NOW_MS, NOW_MS + 1, NOW_MS + 2]


def test_a_batch_with_timestamps_before_1970_has_no_max_timestamp() -> None:
    batch = batch_for_leader(batch_of(b"a", timestamp=-500), LogConfig(), AppendOrigin.CLIENT, NOW_MS)
    assert batch.max_timestamp == -1


def test_a_timestamp_that_no_batch_header_can_hold_is_refused_whatever_the_bounds() -> None:
    late = patched(27, (2**63 - 1).to_bytes(8, "big"), batch_of(b"a", b"b"))
    assert code_of(late, LogConfig(message_timestamp_after_max_ms=2**63 - 1)) == ErrorCode.INVALID_TIMESTAMP


def test_a_producers_log_append_time_flag_does_not_hide_the_timestamps_of_its_records() -> None:
    claimed = bytes(with_max_timestamp(RecordBatch(batch_of(b"a", b"b")), LOG_APPEND_TIME, NOW_MS + 900))
    batch = batch_for_leader(claimed, LogConfig(), AppendOrigin.CLIENT, NOW_MS)
    assert (batch.timestamp_type, batch.max_timestamp) == (0, NOW_MS + 1)


@pytest.mark.parametrize("config", [BY_HEADER, FULL, LogConfig(compression_type="gzip")])
def test_lz4_frames_that_java_consumers_cannot_read_are_refused(config: LogConfig) -> None:
    """Python's lz4 and cramjam link the blocks of a frame unless they are told not to."""
    linked, dictionary = (
        framed(LZ4, lambda payload: lz4_frame(payload, flags=0x40)),
        framed(LZ4, lambda payload: lz4_frame(payload, dictionary_id=7)),
    )
    for tweak in (linked, dictionary, framed(LZ4, lambda _: b""), framed(LZ4, lz4_legacy)):
        assert code_of(tweak(bytearray(batch_of(b"a" * 100))), config) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert code_of(framed(LZ4, lz4_frame)(bytearray(batch_of(b"a" * 100))), config) == ErrorCode.NONE


def test_a_zstandard_frame_without_its_last_block_is_refused() -> None:
    open_ended = framed(ZSTD, lambda payload: zstd_frame(payload, is_last=False))
    assert code_of(open_ended(bytearray(batch_of(b"a" * 100)))) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_magic_0_and_1_are_invalid_and_unknown_magic_values_are_corrupt() -> None:
    magics = {0: ErrorCode.INVALID_RECORD, 1: ErrorCode.INVALID_RECORD, 3: ErrorCode.CORRUPT_MESSAGE}
    for magic, code in magics.items():
        assert code_of(patched(16, bytes((magic,)))) == code


def test_offsets_that_are_not_consecutive_are_renumbered() -> None:
    data = build_batch([Record(0, NOW_MS, None, b"a"), Record(5, NOW_MS, None, b"b")], last_offset=1)
    batch = batch_for_leader(data, FULL, AppendOrigin.CLIENT, NOW_MS)
    assert [record.offset for record in batch.records()] == [0, 1]


def test_batches_of_the_quorum_skip_size_limits_but_not_the_checksum() -> None:
    assert code_of(batch_of(b"a" * 2_000_000, is_control=True), origin=AppendOrigin.RAFT_LEADER) == ErrorCode.NONE
    assert code_of(batch_of(b"a")[:-1] + b"?", origin=AppendOrigin.RAFT_LEADER) == ErrorCode.CORRUPT_MESSAGE
