"""Validates a client's batch by its records, and applies the topic's codec, timestamps and offsets. The header's
largest timestamp is set to that of the records, because retention and lookups by time use it.

The payload is decompressed, checked without building record objects, and recompressed if the topic has another codec.
Its bytes are unchanged unless offsets must be renumbered.

Decompression and compression release the interpreter lock, so they are jobs for a thread. Loops over records hold the
lock, so they run on the loop in slices.

The cost of decoding depends on the decompressed size, and equal records compress to almost nothing. So a compressed
batch that must be decoded has extra limits. Beyond them the error is MESSAGE_TOO_LARGE, and Kafka's producer splits the
batch and resends the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import ApiError, ProtocolError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import resealed_batch, with_max_timestamp
from kraft.protocol.records.compression import CODEC_NAMES, GZIP, LZ4, NONE, ZSTD, DecompressedTooLarge
from kraft.protocol.records.record import RECORD_BYTES_MIN, InvalidRecord, Record, append_record, iterate_records
from kraft.protocol.records.record_batch import (
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    RecordBatch,
)
from kraft.protocol.records.validation import JUDGED_A_SLICE, JudgedRecords, judge_records, judge_usual
from kraft.storage.log_config import LogConfig
from kraft.world.steps import Steps, in_thread

SHOWN_RECORD_ERRORS_MAX = 3
TIMESTAMP_MAX = (1 << 63) - 1
"""The largest timestamp that a batch header can hold. A record's own timestamp may be later if only the batch header
was checked. A lookup by time does not find such a record. Kafka does not find it either: there the timestamp wraps to
one before 1970."""

DECODED_BYTES_MAX = 128 << 20
"""Limit of the decompressed size of a batch that must be decoded; max.message.bytes if that is more."""
DECODED_FREELY_BYTES_MAX = 16 << 20
DECODED_RATIO_MAX = 32
"""Limit of the ratio between the decompressed size and the size of a batch that must be decoded. Batches that
decompress to at most DECODED_FREELY_BYTES_MAX are exempt."""
DECODED_RECORDS_MAX = 250_000
"""Limit of the records of a batch that must be decoded (about 0.2 seconds of work); or the number that fits into
max.message.bytes uncompressed, if that is more."""
BUILT_A_SLICE = 500
"""Records that are decoded one by one between two pauses: about three milliseconds."""


class RecordsRejected(ApiError):
    """Raised when individual records are invalid. `record_errors` holds (index in the batch, sentence) for the Produce
    response."""

    def __init__(self, code: int, message: str, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def target_codec(config: LogConfig, source: int) -> int:
    """The codec that compression.type requires for a batch received in codec `source`."""
    wanted = config.compression_type
    if wanted == "producer":
        return source
    return 0 if wanted == "uncompressed" else CODEC_NAMES.index(wanted)


def timestamp_in_bounds(timestamp: int, config: LogConfig, now_ms: int) -> bool:
    """Whether the topic accepts a record with this timestamp."""
    difference = now_ms - timestamp
    return timestamp == NO_TIMESTAMP or (
        difference <= config.message_timestamp_before_max_ms
        and -difference <= config.message_timestamp_after_max_ms
        and timestamp <= TIMESTAMP_MAX
    )


def validate_at_once(batch: RecordBatch, config: LogConfig, now_ms: int) -> RecordBatch | None:
    """Validate an uncompressed batch in one pass, with the result of `validate_records`. Returns None if its records
    are unusual or one is invalid; use `validate_records` then."""
    if batch.count > JUDGED_A_SLICE:
        return None
    start = batch.position + HEADER_SIZE
    payload = bytes(batch.buffer[start : batch.position + batch.size])
    index, position, have_keys, are_consecutive, least, most = judge_usual(payload, 0, 0, batch.count)
    if index < batch.count or position < len(payload) or not are_consecutive:
        return None
    judged = JudgedRecords(have_keys, are_consecutive, least, most)
    if not _all_acceptable(batch, judged, config, now_ms):
        return None
    if not config.log_append_time and batch.max_timestamp == batch.base_timestamp + most >= NO_TIMESTAMP:
        return batch
    return _with_times(batch, *_times(batch, judged, config, now_ms))


def validate_records(batch: RecordBatch, config: LogConfig, codec: int, now_ms: int) -> Steps[RecordBatch]:
    """Return the batch to append in `codec`: `batch` itself if nothing has to change. The header must be valid, with at
    least one record. Raises ApiError."""
    payload, judged = yield from _judge(batch, config)
    if not _all_acceptable(batch, judged, config, now_ms):
        yield from _check_each_record(batch, payload, config, now_ms)
    timestamp_type, max_timestamp = _times(batch, judged, config, now_ms)
    if codec == batch.codec and judged.are_consecutive:
        return _with_times(batch, timestamp_type, max_timestamp)
    if not judged.are_consecutive:
        payload = yield from _renumbered(batch, payload)
    return RecordBatch(
        (
            yield from in_thread(
                resealed_batch, batch, payload, codec, _level(config, codec), timestamp_type, max_timestamp
            )
        )
    )


def _times(batch: RecordBatch, judged: JudgedRecords, config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The timestamp type and largest timestamp for the header. A time before 1970 counts as none, as in Kafka."""
    if config.log_append_time:
        return LOG_APPEND_TIME, now_ms
    return CREATE_TIME, max(NO_TIMESTAMP, batch.base_timestamp + judged.timestamp_delta_max)


def _with_times(batch: RecordBatch, timestamp_type: int, max_timestamp: int) -> RecordBatch:
    if timestamp_type == batch.timestamp_type and max_timestamp == batch.max_timestamp:
        return batch
    return RecordBatch(with_max_timestamp(batch, timestamp_type, max_timestamp))


def _level(config: LogConfig, codec: int) -> int | None:
    return {
        GZIP: config.compression_gzip_level,
        LZ4: config.compression_lz4_level,
        ZSTD: config.compression_zstd_level,
    }.get(codec)


def _judge(batch: RecordBatch, config: LogConfig) -> Steps[tuple[bytes, JudgedRecords]]:
    """Return the decompressed payload, and the properties of its records."""
    records_max = max(DECODED_RECORDS_MAX, config.max_message_bytes // RECORD_BYTES_MIN)
    if batch.codec != NONE and batch.count > records_max:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch that must be decoded: {batch.count} records, more than {records_max}; send smaller ones",
        )
    try:
        if batch.codec == NONE:
            payload = bytes(batch.payload())
        else:
            payload = yield from in_thread(_decompressed, batch, _decoded_bytes_max(batch, config))
        return payload, (yield from judge_records(payload, batch.count))
    except DecompressedTooLarge as problem:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch that must be decoded: {problem}; send smaller ones"
        ) from problem
    except InvalidRecord as problem:
        raise ApiError(ErrorCode.INVALID_RECORD, str(problem)) from problem
    except ProtocolError as problem:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)) from problem


def _decompressed(batch: RecordBatch, bytes_max: int) -> bytes:
    return bytes(batch.payload(bytes_max))


def _decoded_bytes_max(batch: RecordBatch, config: LogConfig) -> int:
    """The limit on the decompressed size. A batch that compresses to a hundredth or less is refused early, as soon as
    that is seen."""
    by_ratio = min(DECODED_BYTES_MAX, max(DECODED_FREELY_BYTES_MAX, DECODED_RATIO_MAX * batch.size))
    return max(by_ratio, config.max_message_bytes)


def _all_acceptable(batch: RecordBatch, judged: JudgedRecords, config: LogConfig, now_ms: int) -> bool:
    """Whether the topic accepts every record, judged by their common properties. If False, each record must be
    checked."""
    if (config.compact and not judged.have_keys) or batch.attributes & TIMESTAMP_TYPE_FLAG:
        return False
    if config.log_append_time:
        return True
    earliest = batch.base_timestamp + judged.timestamp_delta_min
    latest = batch.base_timestamp + judged.timestamp_delta_max
    if earliest == NO_TIMESTAMP != latest:
        return False  # It passes by itself, but does not tell that later ones do.
    return timestamp_in_bounds(earliest, config, now_ms) and timestamp_in_bounds(latest, config, now_ms)


def _check_each_record(batch: RecordBatch, payload: bytes, config: LogConfig, now_ms: int) -> Steps[None]:
    """Check each record. Raises RecordsRejected naming the invalid ones."""
    errors: list[tuple[int, int, str]] = []
    records = iterate_records(payload, batch.count, batch.base_offset, batch.base_timestamp)
    for index, record in enumerate(records):
        error = _record_error(batch, record, config, now_ms)
        if error is not None:
            errors.append((index, *error))
        if index % BUILT_A_SLICE == BUILT_A_SLICE - 1:
            yield None
    if errors:
        _reject(errors)


def _record_error(batch: RecordBatch, record: Record, config: LogConfig, now_ms: int) -> tuple[int, str] | None:
    if config.compact and record.key is None:
        return ErrorCode.INVALID_RECORD, "a compacted topic cannot accept a record without a key"
    if not config.log_append_time and record.timestamp != NO_TIMESTAMP:
        if not timestamp_in_bounds(record.timestamp, config, now_ms):
            return ErrorCode.INVALID_TIMESTAMP, _out_of_range(record.timestamp, config, now_ms)
    elif batch.timestamp_type == LOG_APPEND_TIME:
        return ErrorCode.INVALID_TIMESTAMP, "a producer may not set the timestamp type to LogAppendTime"
    return None


def _out_of_range(timestamp: int, config: LogConfig, now_ms: int) -> str:
    return (
        f"timestamp {timestamp} is not within [{now_ms - config.message_timestamp_before_max_ms}, "
        f"{now_ms + config.message_timestamp_after_max_ms}]"
    )


def _reject(errors: list[tuple[int, int, str]]) -> None:
    record_errors = [(index, message) for index, _, message in errors]
    if any(code == ErrorCode.INVALID_TIMESTAMP for _, code, _ in errors):
        raise RecordsRejected(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            record_errors,
        )
    shown = "; ".join(f"record {index}: {message}" for index, message in record_errors[:SHOWN_RECORD_ERRORS_MAX])
    raise RecordsRejected(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(errors)} record errors: {shown}",
        record_errors,
    )


def _renumbered(batch: RecordBatch, payload: bytes) -> Steps[bytes]:
    """Return the same records with consecutive offsets."""
    out = bytearray()
    # Relative to offset and time zero, each record has its deltas.
    for index, record in enumerate(iterate_records(payload, batch.count, 0, 0)):
        append_record(out, index, record.timestamp, record.key, record.value, record.headers)
        if index % BUILT_A_SLICE == BUILT_A_SLICE - 1:
            yield None
    return bytes(out)
