"""May this batch be appended, and in which form? Decisions over bytes; nothing is written here.

The ordinary path looks at the header alone: size, CRC, magic, the count against the offsets, sequence, timestamps by
their bounds. Records are decoded only where the topic's configuration demands it: compaction needs keys,
compression.type may force another codec, `kraft.produce.validate.records` asks for it, or the header cannot be
right. Error codes are those that Kafka 4.3 gives for the same bytes.

Decoding costs what the batch holds, not what it has on the wire, and equal records compress to almost nothing: what
a compressed batch may hold where it must be decoded has bounds of its own. They are answered with MESSAGE_TOO_LARGE,
upon which Kafka's producer splits the batch and sends the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import ApiError, ProtocolError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import build_batch, with_max_timestamp
from kraft.protocol.records.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD, DecompressedTooLarge
from kraft.protocol.records.record import (
    RECORD_BYTES_MIN,
    InvalidRecord,
    Record,
    RecordCountMismatch,
    check_lengths,
)
from kraft.protocol.records.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    Buffer,
    CorruptBatch,
    RecordBatch,
)
from kraft.storage.log_config import LogConfig

SHOWN_RECORD_ERRORS_MAX = 3

DECODED_BYTES_MAX = 128 << 20
"""Bytes to which a compressed batch that must be decoded may decompress, or max.message.bytes if that is more: so
many could come uncompressed."""
DECODED_FREELY_BYTES_MAX = 16 << 20
DECODED_RATIO_MAX = 32
"""Bytes to which each byte of such a batch may decompress, beyond DECODED_FREELY_BYTES_MAX."""
DECODED_INLINE_BYTES_MAX = 2048
DECODED_INLINE_RECORDS_MAX = 500
"""A batch of no more bytes and records is decoded on the loop: that takes a few milliseconds."""
COUNT_AT = HEADER_SIZE - 4
DECODED_RECORDS_MAX = 250_000
"""Records that such a batch may hold (about a second's work), or as many as fit in max.message.bytes uncompressed if
that is more."""
CHECKED_RECORDS = 16
"""Of an uncompressed batch as many records are checked by their lengths; all of them where there are no more, or
where they have CHECKED_WHOLLY_RECORD_BYTES on average."""
CHECKED_WHOLLY_RECORD_BYTES = 2048
EXPANSION_MAX = {GZIP: 1032, SNAPPY: 22, LZ4: 255, ZSTD: 1 << 15}
"""Bytes that one compressed byte can become at most, by the format of each codec. Zstandard's shortest block has four
bytes and becomes 128 KiB."""


class AppendOrigin:
    """Who appends: it decides what is checked."""

    CLIENT = 0
    REPLICATION = 1
    COORDINATOR = 2
    RAFT_LEADER = 3


class RecordsRejected(ApiError):
    """Single records are at fault. `record_errors` holds (index in the batch, sentence) for the Produce response."""

    def __init__(self, code: int, message: str, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class NotOneBatch(ApiError):
    """A Produce holds something else than one record batch for a partition: it is refused for its form, no log is
    asked."""


def single_batch(records: Buffer | None) -> RecordBatch:
    """The one batch that a Produce holds for a partition. Raises NotOneBatch with Kafka's code for none, several, an
    old format, or a torn one."""
    size = 0 if records is None else len(records)
    if records is None or size < LOG_OVERHEAD:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, "a Produce must hold one record batch for each partition")
    if size <= 16 or size < HEADER_SIZE:
        raise NotOneBatch(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a record batch")
    batch = RecordBatch(records)
    if batch.size < HEADER_SIZE and batch.magic == MAGIC:
        raise NotOneBatch(ErrorCode.CORRUPT_MESSAGE, f"a record batch of {batch.size} bytes, less than its header")
    if batch.magic != MAGIC:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, f"record format {batch.magic}: only 2 is accepted")
    if batch.size > size:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, "a Produce must hold one whole record batch for each partition")
    if batch.size < size:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, "a Produce may hold only one record batch for each partition")
    return batch


class ValidatedBatch:
    """What `validate_for_leader` made of a client's batch under `config`: the batch, or the error."""

    __slots__ = ("batch", "config", "problem")

    def __init__(self, config: LogConfig, batch: RecordBatch | None, problem: ApiError | None) -> None:
        self.config = config
        self.batch = batch
        self.problem = problem

    def outcome(self) -> RecordBatch:
        """Raises the ApiError."""
        if self.problem is not None:
            raise self.problem
        assert self.batch is not None
        return self.batch


def validated_for_leader(records: Buffer, config: LogConfig, now_ms: int) -> ValidatedBatch:
    """As `validate_for_leader` of a client's batch, for a thread: it touches nothing but its arguments."""
    try:
        return ValidatedBatch(
            config, validate_for_leader(single_batch(records), config, AppendOrigin.CLIENT, now_ms), None
        )
    except ApiError as problem:
        return ValidatedBatch(config, None, problem)


def batch_for_leader(
    records: Buffer, config: LogConfig, origin: int, now_ms: int, validated: ValidatedBatch | None
) -> RecordBatch:
    """The batch to append; `validated` as it is, if it was validated under the same configuration. Raises ApiError."""
    if validated is not None and validated.config is config:
        return validated.outcome()
    return validate_for_leader(single_batch(records), config, origin, now_ms)


def takes_long_to_validate(records: Buffer, config: LogConfig, now_ms: int) -> bool:
    """Whether a client's batch has to be decoded and is not small. False for what is refused for its form."""
    if len(records) < HEADER_SIZE:
        return False
    if len(records) <= DECODED_INLINE_BYTES_MAX:
        count = int.from_bytes(records[COUNT_AT:HEADER_SIZE], "big", signed=True)
        if count <= DECODED_INLINE_RECORDS_MAX:
            return False
    try:
        batch = single_batch(records)
    except NotOneBatch:
        return False
    source = batch.attributes & CODEC_MASK
    if source >= len(CODEC_NAMES):
        return False
    return (
        config.validate_records
        or config.compact
        or target_codec(config, source) != source
        or _header_is_suspect(batch, config, now_ms)
    )


def validate_for_leader(batch: RecordBatch, config: LogConfig, origin: int, now_ms: int) -> RecordBatch:
    """The batch to append: `batch` itself, or one rewritten as the topic demands. Offsets and epoch are still the
    producer's. Raises ApiError."""
    if origin != AppendOrigin.RAFT_LEADER and batch.size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {batch.size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    try:
        batch.verify_crc()
    except CorruptBatch as problem:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from problem
    if origin != AppendOrigin.CLIENT:
        return _with_log_append_time(batch, config, now_ms)
    source = batch.attributes & CODEC_MASK
    _check_client_header(batch, source)
    _check_records_fit(batch, source, config)
    codec = source if config.compression_type == "producer" else target_codec(config, source)
    if config.validate_records or config.compact or codec != source or _header_is_suspect(batch, config, now_ms):
        return _validate_records(batch, config, codec, now_ms)
    return _with_log_append_time(batch, config, now_ms)


def target_codec(config: LogConfig, source: int) -> int:
    """The codec that compression.type demands of a batch that came in `source`."""
    wanted = config.compression_type
    if wanted == "producer":
        return source
    return 0 if wanted == "uncompressed" else CODEC_NAMES.index(wanted)


def _check_client_header(batch: RecordBatch, codec: int) -> None:
    if batch.base_offset != 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"the base offset of a produced batch must be 0, it is {batch.base_offset}"
        )
    if codec >= len(CODEC_NAMES):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression codec {codec}")
    if batch.last_offset_delta < 0 or batch.count <= 0 or batch.count != batch.last_offset_delta + 1:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"{batch.count} records do not fit a last offset delta of {batch.last_offset_delta}",
        )
    if batch.attributes & CONTROL_FLAG:
        raise ApiError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"the sequence {batch.base_sequence} is invalid for producer {batch.producer_id}"
        )


def _check_records_fit(batch: RecordBatch, codec: int, config: LogConfig) -> None:
    """Refuse a batch that cannot hold `count` records: readers would hang at it, or find offsets that repeat.

    Of a compressed batch only the count is bounded.
    """
    count, size = batch.count, batch.length + (LOG_OVERHEAD - HEADER_SIZE)
    try:
        if codec == NONE:
            start = batch.position + HEADER_SIZE
            checked_max = count if size >= count * CHECKED_WHOLLY_RECORD_BYTES else CHECKED_RECORDS
            check_lengths(batch.buffer, start, start + size, count, checked_max)
        elif count * RECORD_BYTES_MIN > min(
            size * EXPANSION_MAX[codec], max(DECODED_BYTES_MAX, config.max_message_bytes)
        ):
            raise RecordCountMismatch(f"{size} bytes in {CODEC_NAMES[codec]} cannot hold {count} records")
    except InvalidRecord as problem:
        raise ApiError(ErrorCode.INVALID_RECORD, f"a batch of {batch.size} bytes: {problem}") from problem


def _header_is_suspect(batch: RecordBatch, config: LogConfig, now_ms: int) -> bool:
    """Whether the records must be looked at: to repair timestamps that cannot be what they say, or to name those at
    fault.

    First and largest timestamp stand for all: what lies between them is at least not later than the largest.
    """
    if batch.max_timestamp < batch.base_timestamp:
        return True
    if config.log_append_time:
        return batch.timestamp_type == LOG_APPEND_TIME
    return not (
        _timestamp_in_bounds(batch.base_timestamp, config, now_ms)
        and _timestamp_in_bounds(batch.max_timestamp, config, now_ms)
    )


def _timestamp_in_bounds(timestamp: int, config: LogConfig, now_ms: int) -> bool:
    difference = now_ms - timestamp
    return timestamp == NO_TIMESTAMP or (
        difference <= config.message_timestamp_before_max_ms and -difference <= config.message_timestamp_after_max_ms
    )


def _out_of_range(timestamp: int, config: LogConfig, now_ms: int) -> str:
    return (
        f"timestamp {timestamp} is not within [{now_ms - config.message_timestamp_before_max_ms}, "
        f"{now_ms + config.message_timestamp_after_max_ms}]"
    )


def _with_log_append_time(batch: RecordBatch, config: LogConfig, now_ms: int) -> RecordBatch:
    """Stamp the batch if the topic wants append times; clear a stray append-time mark if it does not."""
    if config.log_append_time:
        return RecordBatch(with_max_timestamp(batch, LOG_APPEND_TIME, now_ms))
    if batch.timestamp_type == LOG_APPEND_TIME:
        return RecordBatch(with_max_timestamp(batch, CREATE_TIME, batch.max_timestamp))
    return batch


def _validate_records(batch: RecordBatch, config: LogConfig, codec: int, now_ms: int) -> RecordBatch:
    records = _decode(batch, config)
    errors = [
        (index, code, message)
        for index, record in enumerate(records)
        for code, message in _record_errors(batch, record, config, now_ms)
    ]
    if errors:
        _reject(errors)
    consecutive = all(record.offset == batch.base_offset + index for index, record in enumerate(records))
    if codec != batch.codec or not consecutive:
        return RecordBatch(_rebuild(batch, records, config, codec, now_ms))
    max_timestamp = max(record.timestamp for record in records)
    if config.log_append_time or max_timestamp != batch.max_timestamp or batch.timestamp_type == LOG_APPEND_TIME:
        timestamp_type, timestamp = (
            (LOG_APPEND_TIME, now_ms) if config.log_append_time else (CREATE_TIME, max_timestamp)
        )
        return RecordBatch(with_max_timestamp(batch, timestamp_type, timestamp))
    return batch


def _decoded_bytes_max(batch: RecordBatch, config: LogConfig) -> int:
    """What compresses to a hundredth and less is refused long before the bound, as soon as that shows."""
    by_ratio = min(DECODED_BYTES_MAX, max(DECODED_FREELY_BYTES_MAX, DECODED_RATIO_MAX * batch.size))
    return max(by_ratio, config.max_message_bytes)


def _decode(batch: RecordBatch, config: LogConfig) -> list[Record]:
    records_max = max(DECODED_RECORDS_MAX, config.max_message_bytes // RECORD_BYTES_MIN)
    if batch.codec != NONE and batch.count > records_max:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch that must be decoded: {batch.count} records, more than {records_max}; send smaller ones",
        )
    try:
        return batch.records(_decoded_bytes_max(batch, config))
    except DecompressedTooLarge as problem:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch that must be decoded: {problem}; send smaller ones"
        ) from problem
    except InvalidRecord as problem:
        raise ApiError(ErrorCode.INVALID_RECORD, str(problem)) from problem
    except ProtocolError as problem:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)) from problem


def _record_errors(batch: RecordBatch, record: Record, config: LogConfig, now_ms: int) -> list[tuple[int, str]]:
    if config.compact and record.key is None:
        return [(ErrorCode.INVALID_RECORD, "a compacted topic cannot accept a record without a key")]
    if not config.log_append_time and record.timestamp != NO_TIMESTAMP:
        if not _timestamp_in_bounds(record.timestamp, config, now_ms):
            return [(ErrorCode.INVALID_TIMESTAMP, _out_of_range(record.timestamp, config, now_ms))]
    elif batch.timestamp_type == LOG_APPEND_TIME:
        return [(ErrorCode.INVALID_TIMESTAMP, "a producer may not set the timestamp type to LogAppendTime")]
    return []


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


def _rebuild(batch: RecordBatch, records: list[Record], config: LogConfig, codec: int, now_ms: int) -> bytes:
    """The same records in another codec, with consecutive offsets."""
    renumbered = [
        Record(batch.base_offset + index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]
    return build_batch(
        renumbered,
        codec=codec,
        level={
            GZIP: config.compression_gzip_level,
            LZ4: config.compression_lz4_level,
            ZSTD: config.compression_zstd_level,
        }.get(codec),
        timestamp_type=LOG_APPEND_TIME if config.log_append_time else CREATE_TIME,
        log_append_time_ms=now_ms,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
    )
